//! Renderers: each reads only the diagnosis.

pub mod gate;
pub mod json;

pub mod markdown;

pub mod spark;
pub mod text;

mod words;
