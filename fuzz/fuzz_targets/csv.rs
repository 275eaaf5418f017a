//! Tables in text: every separator, quotes, decimal commas, wide and long, headers that change.

#![no_main]

use libfuzzer_sys::fuzz_target;
use whyspike_fuzz::read_plain;

fuzz_target!(|bytes: &[u8]| {
    read_plain(bytes, Some("csv"));
});
