//! What can be seen from outside: metrics, logs, traces.

pub mod logs;
pub mod metrics;
mod panics;
mod readiness;
mod traces;

pub use metrics::Metrics;
pub use metrics::exposition::CONTENT_TYPE;
pub use metrics::page::metrics_page;
pub use metrics::told_limits::{LIMITS_TOLD_MAX, OTHER};
pub use panics::tell_panics;
pub use readiness::{Readiness, ReadinessReason};
pub(crate) use traces::OwnedOrigin;
pub use traces::{Origin, Protocol, SpanOutcome, Traces, TracesError, is_endpoint};
