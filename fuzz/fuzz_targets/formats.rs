//! Each format forced on what follows the first byte, which picks it: readers past what they would be recognised by.

#![no_main]

use libfuzzer_sys::fuzz_target;
use whyspike_fuzz::{format, let_guarded_panics_pass, read_plain};

fuzz_target!(
    init: {
        let_guarded_panics_pass();
    },
    |bytes: &[u8]| {
        if let Some((pick, log)) = bytes.split_first() {
            read_plain(log, Some(format(*pick)));
        }
    }
);
