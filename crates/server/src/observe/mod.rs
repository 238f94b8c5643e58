//! What can be seen from outside: metrics, logs, traces.

mod exposition;
pub mod families;
mod log_line;
mod log_thread;
pub mod logs;
mod metrics;
mod page;
mod panics;
mod process;
mod readiness;
mod span_export;
mod throttle;
mod told_limits;
mod traceparent;
mod traces;

pub use exposition::CONTENT_TYPE;
pub use metrics::Metrics;
pub use page::metrics_page;
pub use panics::tell_panics;
pub use readiness::{Readiness, Trouble};
pub use told_limits::{LIMITS_TOLD_MAX, OTHER};
pub(crate) use traces::OwnedOrigin;
pub use traces::{Origin, Protocol, SpanOutcome, Traces, TracesError, is_endpoint};
