//! Prints lines on a thread of its own: a pipe that nobody reads must not hold up the reading of the log.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use whyspike::watch::Ledger;

/// Prints to standard output.
pub(super) struct Printer {
    give: Sender<(u64, Vec<String>)>,
    took: Receiver<io::Result<()>>,
    /// Lines that are being printed.
    waiting: usize,
}

impl Printer {
    /// Notes the number of the last news that were printed in a file: after each line one short write, so that a kill
    /// hardly falls between the two.
    pub(super) fn start(said: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let mut said = options.open(said)?;
        let (give, take) = channel::<(u64, Vec<String>)>();
        let (done, took) = channel();
        std::thread::spawn(move || {
            for (first, lines) in take {
                if done.send(print(first, &lines, &mut said)).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            give,
            took,
            waiting: 0,
        })
    }

    /// Prints what is unsaid, unless that is going on, and waits so long for it. How many lines were printed, and how it went.
    pub(super) fn print(
        &mut self,
        ledger: &Ledger,
        patience: Duration,
    ) -> Option<(usize, io::Result<()>)> {
        let lines = &ledger.unsaid;
        let mut wait = patience;
        if self.waiting > 0 {
            // What was not taken at once is waited for in the end only.
            wait = if patience == Duration::MAX {
                patience
            } else {
                Duration::ZERO
            };
        } else if lines.is_empty() {
            return None;
        } else {
            self.waiting = lines.len();
            let first = ledger.news + 1 - lines.len() as u64;
            // A thread that is gone shows below.
            let _ = self.give.send((first, lines.clone()));
        }
        let outcome = match self.took.recv_timeout(wait) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::BrokenPipe.into()),
        };
        Some((std::mem::take(&mut self.waiting), outcome))
    }
}

fn print(first: u64, lines: &[String], said: &mut File) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    for (number, line) in (first..).zip(lines) {
        out.write_all(format!("{line}\n").as_bytes())?;
        out.flush()?;
        // Without it a kill before the ledger is written repeats the line, no more.
        let _ = said
            .rewind()
            .and_then(|()| said.write_all(format!("{number:020}").as_bytes()));
    }
    Ok(())
}

/// Takes lines off the ledger that were printed before the last watch was killed.
pub(super) fn forget_said(ledger: &mut Ledger, said: &Path) {
    let mut text = String::new();
    let read = File::open(said).and_then(|f| f.take(20).read_to_string(&mut text));
    let last = read.ok().and_then(|_| text.parse::<u64>().ok());
    let left = last.map_or(u64::MAX, |last| ledger.news.saturating_sub(last));
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    let gone = ledger.unsaid.len().saturating_sub(left);
    ledger.unsaid.drain(..gone);
}
