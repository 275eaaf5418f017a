//! gzip and Zstandard around logs of any format: unpacking, and streams that are damaged or cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use whyspike_fuzz::read;

fuzz_target!(|bytes: &[u8]| {
    read(bytes, None);
});
