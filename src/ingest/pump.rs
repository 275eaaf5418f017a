//! Reads and decompresses on one core while another parses.

use std::io;
use std::io::Read;
use std::sync::mpsc::{Receiver, sync_channel};

use crate::ingest::IngestError;
use crate::ingest::open::Opened;
use crate::run::Rows;

/// Parts that wait to be parsed.
const WAITING: usize = 2;

/// What parses a stream of bytes.
pub(super) type Parse = fn(&mut dyn Read, &mut Rows) -> Result<(), String>;

/// Feeds a source to what parses it. `progress` hears of every part.
pub(super) fn run(
    opened: &mut Opened,
    parse: Parse,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Rows, IngestError> {
    let name = opened.name();
    let outcome = std::thread::scope(|scope| {
        let (give, take) = sync_channel(WAITING);
        let parser = scope.spawn(move || {
            let mut rows = Rows::default();
            let mut parts = Parts {
                waiting: take,
                part: Vec::new(),
                at: 0,
            };
            parse(&mut parts, &mut rows).map(|()| rows)
        });
        while let Some(part) = opened.next_part()? {
            if give.send(part).is_err() {
                break;
            }
            progress(opened.bytes_read(), opened.size());
        }
        drop(give);
        Ok(parser
            .join()
            .unwrap_or_else(|e| std::panic::resume_unwind(e)))
    })?;
    outcome.map_err(|what| IngestError::Broken { path: name, what })
}

/// The parts as one stream.
struct Parts {
    waiting: Receiver<Vec<u8>>,
    part: Vec<u8>,
    at: usize,
}

impl Read for Parts {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.part.len() {
            // The sender hangs up at the end.
            let Ok(part) = self.waiting.recv() else {
                return Ok(0);
            };
            (self.part, self.at) = (part, 0);
        }
        let n = (&self.part[self.at..]).read(out)?;
        self.at += n;
        Ok(n)
    }
}
