//! Fits the likelihood ratios of the rules to labelled runs, and measures how far stated posteriors can be trusted.
//!
//! A ratio is a share of runs of its cause over a share of the others. The published ratio stays in as a number of runs
//! that were never seen, so a few labelled ones move it a little and many move it far; the caps of a group of evidence
//! bound it. Judged is only what was not fitted on: whole families of configurations are held back in turn, for two runs
//! of one configuration are nearly the same run.

mod fit;
mod labelled;
mod reliability;
mod write;

pub use fit::{Fitted, fit};
pub use labelled::{LabelError, Labelled};
pub use reliability::{Judged, Reliability, cross_validate};
pub use write::with_ratios;
