//! Console lines of Megatron and its kin, as several ranks and restarts leave them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use whyspike_fuzz::read_plain;

fuzz_target!(|bytes: &[u8]| {
    read_plain(bytes, Some("megatron"));
});
