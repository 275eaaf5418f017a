//! Integration tests, one binary: polars is linked once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test says what is wrong by panicking"
)]

mod aliases;
mod cadence;
mod cases;
mod check;
mod cli;
mod contributing;
mod costs;
mod detect;
mod diagnose;
mod events;
mod faults;
mod features;
mod folders;
mod follow;
mod ingest;
mod layering;
mod pitfalls;
mod plan;
mod plot;
mod prefixes;
mod properties;
mod readings;
mod readme;
mod report;
mod rules;
mod semantics;
mod skip_list;
mod support;
mod watch;
mod wayback;
mod written;
