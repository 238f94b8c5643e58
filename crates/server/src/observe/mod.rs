//! Metrics, logs, traces, readiness, whether the policy limits what comes, and the hook that counts and logs panics.

mod coverage;
pub(crate) mod events;
pub mod logs;
pub mod metrics;
mod panics;
pub(crate) mod readiness;
mod traces;

pub use coverage::LimitCoverage;
pub use events::{
    AuditEvent, EventFate, EventName, EventSeverity, EventSink, Events, EventsError, EventsUnwritten,
    SinkCounts,
};
pub use metrics::Metrics;
pub use metrics::exposition::CONTENT_TYPE;
pub use metrics::limit_series::{LIMIT_SERIES_MAX, OTHER};
pub use metrics::page::metrics_page;
pub use panics::install_panic_hook;
pub use readiness::{Readiness, ReadinessReason};
pub use traces::{Origin, Protocol, SpanOutcome, Traces, TracesError, is_endpoint};
pub(crate) use traces::{OwnedOrigin, TraceScope, within_trace};
