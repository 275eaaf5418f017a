//! Renderers: each reads only the diagnosis.

pub mod alert;

pub mod chart;

pub mod figure;

pub mod gate;

pub mod html;

pub mod json;

pub mod markdown;

pub mod plot;

pub mod prometheus;

pub mod skip_list;

pub mod text;

mod ansi;

mod cost;

mod times;

mod words;

pub use times::shown;
