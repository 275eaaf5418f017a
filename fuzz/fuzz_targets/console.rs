//! Any text as a log that is recognised by its first lines, over every format at once.

#![no_main]

use libfuzzer_sys::fuzz_target;
use whyspike_fuzz::read_plain;

fuzz_target!(|bytes: &[u8]| {
    read_plain(bytes, None);
});
