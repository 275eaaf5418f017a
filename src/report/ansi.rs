//! ANSI sequences of the colours that reports use; whoever prints to something else than a terminal strips them.

use crate::plan::Action;

pub(super) const BOLD: &str = "\x1b[1m";
pub(super) const DIM: &str = "\x1b[2m";
pub(super) const RED: &str = "\x1b[31m";
pub(super) const GREEN: &str = "\x1b[32m";
pub(super) const YELLOW: &str = "\x1b[33m";
pub(super) const PLAIN: &str = "\x1b[0m";

/// The colour of an advice: nothing to do, to be watched, to be acted on.
pub(super) fn of(action: Action) -> &'static str {
    match action {
        Action::None => GREEN,
        Action::Wait => YELLOW,
        _ => RED,
    }
}
