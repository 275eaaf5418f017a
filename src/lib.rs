//! Explains loss spikes in large-model training from the logs that the run already wrote.
//!
//! The order of the modules is the order of imports: a module names only modules above it.

pub mod cores;

pub mod files;

pub mod signal;

pub mod run;

pub mod store;

pub mod ingest;

pub mod baseline;

pub mod detect;

pub mod cautions;

pub mod replay;

pub mod features;

pub mod rules;

pub mod verdict;

pub mod checkpoints;

pub mod cadence;

pub mod data_order;

pub mod resume;

pub mod plan;

pub mod diagnosis;

pub mod gate;

pub mod calibrate;

pub mod watch;

pub mod report;
