//! The JSON that people and scripts write and read.

mod request;

pub use request::{RequestError, TraceLine, request, trace_line};
