//! Parses requests: JSON bodies (single, batch, refund, throttle), lines of a trace, and `name value` pairs.
//! Renders trust scores and hexadecimal digits.
//!
//! `table` is the one list of fields; all parsers use it.

mod batch;
mod error;
mod fields;
mod hex;
mod pairs;
mod refund;
mod request;
mod table;
mod throttle;
mod trust_report;

pub use batch::{BatchReader, batch};
pub use error::RequestError;
pub use fields::{FieldError, RequestFields};
pub(crate) use hex::hex;
pub(crate) use pairs::each_value;
pub use refund::{Refund, refund};
pub use request::{TraceLine, request, trace_line};
pub(crate) use table::{FIELDS, FieldTarget, RequestField};
pub use throttle::{ThrottleBody, throttle};
pub(crate) use trust_report::{ShownInputs, ShownScore, ShownTerms, millionths, trust_report};
