//! Panics that the reader of Parquet catches: its library trusts the pages, and they are no findings.

use std::panic::{PanicHookInfo, set_hook, take_hook};

/// Folders of the libraries whose panics are caught, as they stand in the paths of their sources.
const CAUGHT: [&str; 3] = ["/parquet-", "/arrow-", "/bytes-"];
/// What stands in the stack of a panic that is caught.
const GUARD: &str = "store::read::guarded";

/// Has the fuzzer ignore panics of the libraries behind the guard. All others end the process as before.
pub fn let_guarded_panics_pass() {
    let fatal = take_hook();
    set_hook(Box::new(move |info| {
        if !of_library(info) {
            fatal(info);
        }
    }));
}

fn of_library(info: &PanicHookInfo<'_>) -> bool {
    let file = info.location().map_or("", |l| l.file());
    if CAUGHT.iter().any(|name| file.contains(name)) {
        return true;
    }
    // The standard library's own panics, such as that of a capacity, name no caller.
    let library = file.starts_with("/rustc/") || file.contains("library/");
    library
        && std::backtrace::Backtrace::force_capture()
            .to_string()
            .contains(GUARD)
}
