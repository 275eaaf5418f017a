//! Parquet: stored runs by their footer, and the tables of others, wide and long.

#![no_main]

use libfuzzer_sys::fuzz_target;
use whyspike_fuzz::{let_guarded_panics_pass, read};

fuzz_target!(
    init: {
        let_guarded_panics_pass();
    },
    |bytes: &[u8]| {
        read(bytes, Some("parquet"));
        // A stored run read as a table, as it is among several files.
        let _ = whyspike::store::read_table(bytes.to_vec());
    }
);
