//! Integration tests, one binary: polars is linked once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test says what is wrong by panicking"
)]

mod cli;
mod contributing;
mod detect;
mod diagnose;

mod faults;
mod features;
mod ingest;
mod layering;
mod plan;
mod properties;
mod rules;
mod support;
mod written;
