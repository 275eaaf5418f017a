//! Event files of TensorBoard: frames, checksums, protobuf, tags, rows. The checksums are put right after a mutation.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use whyspike_fuzz::{mend, read_plain};

fuzz_target!(|bytes: &[u8]| {
    read_plain(bytes, Some("tensorboard"));
});

fuzz_mutator!(
    |bytes: &mut [u8], size: usize, max_size: usize, seed: u32| {
        let size = fuzzer_mutate(bytes, size, max_size);
        // Now and then a checksum stays wrong.
        if seed % 16 > 0 {
            mend::event_file(&mut bytes[..size]);
        }
        size
    }
);
