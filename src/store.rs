//! Runs as Parquet: writes and reads `run.parquet`, and reads the tables that others write.
//!
//! The only module that knows arrow and parquet.

mod arrays;
mod footer;
mod long;
mod read;
mod table;
mod thrift;
mod write;

use std::io;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

use crate::files::Refused;
use crate::run::message;

pub use long::Long;
pub use read::{is_store, read, read_file};
pub use table::{has_steps, read_table, read_table_file};
pub use write::write;

/// A Parquet file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes are not a whole Parquet file.
    #[error("cannot be read as Parquet ({}); a file that is cut or still being written has no footer: write it again", plain(.0))]
    Parquet(ParquetError),
    /// The columns could not be encoded.
    #[error("cannot be written as Parquet ({})", plain(.0))]
    Encode(ParquetError),
    /// A column could not be decoded.
    #[error("a column cannot be decoded ({}); write the file again", message(&.0.to_string()))]
    Arrow(#[from] ArrowError),
    /// The columns are compressed with a codec that is not built in.
    #[error(
        "column `{column}` is compressed with {codec}; write the file again with zstd, snappy or no compression"
    )]
    Codec {
        /// The first such column.
        column: String,
        /// The codec.
        codec: String,
    },
    /// No column counts the steps.
    #[error("no column says which step a row is (the columns are {columns}); name one `step`")]
    NoStep {
        /// The columns there are.
        columns: String,
    },
    /// The footer promises more than fits.
    #[error(
        "its footer promises {rows} rows of {columns} columns in {bytes} bytes, more than is read; write the file \
         again with the step and the metrics that matter"
    )]
    Large {
        /// Rows as the footer has it.
        rows: u64,
        /// Columns that would be read.
        columns: usize,
        /// Bytes of the file.
        bytes: u64,
    },
    /// The file is of a later format.
    #[error("run format {found} is newer than this whyspike reads ({known}): update whyspike")]
    Newer {
        /// Format version of the file.
        found: u64,
        /// The newest that is known.
        known: u64,
    },
    /// The file is not a stored run.
    #[error(
        "not a run stored by whyspike (no `whyspike.format_version` in the footer); read it as a table"
    )]
    NotStored,
    /// A part of the footer does not parse.
    #[error("`{key}` in the footer is damaged ({}); ingest the log again", message(&.source.to_string()))]
    Footer {
        /// The key.
        key: &'static str,
        /// Why it does not parse.
        source: serde_json::Error,
    },
    /// The rows are not those that whyspike wrote.
    #[error("{what}: the file was changed after whyspike wrote it; ingest the log again")]
    Changed {
        /// What does not fit.
        what: String,
    },
}

impl From<Refused> for StoreError {
    fn from(Refused { doing, source }: Refused) -> Self {
        Self::Io { doing, source }
    }
}

/// What the library says, without the names it puts before it.
fn plain(error: &ParquetError) -> String {
    let text = error.to_string();
    let said = text
        .split_once(": ")
        .map_or(text.as_str(), |(_, said)| said);
    message(said.trim_end_matches('.'))
}
