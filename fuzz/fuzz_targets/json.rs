//! JSON: `trainer_state.json` and golden values as whole files, and JSON lines.

#![no_main]

use libfuzzer_sys::fuzz_target;
use whyspike_fuzz::read_plain;

fuzz_target!(|bytes: &[u8]| {
    for format in ["hf-trainer-state", "megatron-golden-values", "jsonl"] {
        read_plain(bytes, Some(format));
    }
});
