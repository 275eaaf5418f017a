//! Renderers: each reads only the diagnosis.

pub mod json;

pub mod markdown;

pub mod text;

mod words;
