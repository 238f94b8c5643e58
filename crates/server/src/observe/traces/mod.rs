//! Traces: each decision becomes a span, which is exported by OTLP if the settings name a collector.

mod current;
pub(super) mod export;
pub(super) mod traceparent;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Span, SpanBuilder, SpanKind, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tidegate::Nanos;
use tidegate::engine::Decision;

pub(crate) use current::{TraceScope, current_trace, is_traced, within_trace};
use export::{ExportThread, SpanCounts};

pub use export::{SpanOutcome, TracesError, is_endpoint};

/// Timeout for exporting the remaining spans when the server ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP.
    Http,
    /// Envoy's rate limit service.
    Rls,
    /// Envoy's external authorization.
    ExtAuthz,
    /// The Redis protocol.
    Resp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 4] = [Protocol::Http, Protocol::Rls, Protocol::ExtAuthz, Protocol::Resp];

    /// Its label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Rls => "rls",
            Protocol::ExtAuthz => "ext_authz",
            Protocol::Resp => "resp",
        }
    }
}

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its `traceparent` header, which names the trace it belongs to.
    pub traceparent: Option<&'a str>,
}

/// An [`Origin`] that a future can own.
#[derive(Debug)]
pub(crate) struct OwnedOrigin {
    protocol: Protocol,
    traceparent: Option<Box<str>>,
}

impl OwnedOrigin {
    pub(crate) fn of(origin: Origin<'_>) -> OwnedOrigin {
        OwnedOrigin { protocol: origin.protocol, traceparent: origin.traceparent.map(Box::from) }
    }

    pub(crate) fn as_origin(&self) -> Origin<'_> {
        Origin { protocol: self.protocol, traceparent: self.traceparent.as_deref() }
    }
}

/// The exporter of spans; by default there is none and spans are not made.
#[derive(Debug, Default)]
pub struct Traces {
    on: Option<Box<Tracing>>,
}

struct Tracing {
    tracer: SdkTracer,
    provider: SdkTracerProvider,
    counts: Arc<SpanCounts>,
    /// The thread ends when this is dropped.
    _thread: ExportThread,
}

impl Traces {
    /// Exports spans to an OTLP/gRPC endpoint from its own threads. It does not connect yet, so the collector may start
    /// later.
    ///
    /// # Errors
    /// When the endpoint is not a URL, or the thread cannot be started.
    pub fn to(endpoint: &str) -> Result<Traces, TracesError> {
        let counts = Arc::new(SpanCounts::default());
        let (provider, thread) = export::start(endpoint, Arc::clone(&counts))?;
        let tracer = provider.tracer("tidegate");
        Ok(Traces { on: Some(Box::new(Tracing { tracer, provider, counts, _thread: thread })) })
    }

    /// Are spans made?
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Records a decision as a span.
    #[inline]
    pub fn decided(&self, origin: Origin<'_>, decision: &Decision, began: Nanos, ended: Nanos) {
        if let Some(tracing) = &self.on {
            tracing.record(origin, decision, began, ended);
        }
    }

    /// How many spans had this outcome.
    pub fn spans(&self, outcome: SpanOutcome) -> u64 {
        self.on.as_ref().map_or(0, |tracing| tracing.counts.get(outcome))
    }

    /// Exports the waiting spans, for a few seconds at most, and stops. Blocks; later spans are lost.
    pub fn shutdown(&self) {
        if let Some(tracing) = &self.on {
            // Failed exports are counted and logged by the exporter.
            let _flushed = tracing.provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        }
    }
}

impl Tracing {
    fn record(&self, origin: Origin<'_>, decision: &Decision, began: Nanos, ended: Nanos) {
        let mut context = Context::new();
        if let Some(parent) = origin.traceparent.and_then(traceparent::parse) {
            if !parent.is_sampled() {
                return;
            }
            context = context.with_remote_span_context(parent);
        }
        let builder = SpanBuilder::from_name("tidegate.decide")
            .with_kind(SpanKind::Server)
            .with_start_time(wall_time(decision, began));
        let mut span = self.tracer.build_with_context(builder, &context);
        if !span.is_recording() {
            return;
        }
        self.counts.add(SpanOutcome::Made, 1);
        span.set_attributes(attributes(origin.protocol, decision));
        span.end_with_timestamp(wall_time(decision, ended));
    }
}

/// The attributes of a decision's span. Names of limits are included, keys of clients never are.
fn attributes(protocol: Protocol, decision: &Decision) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new("tidegate.protocol", protocol.as_str()),
        KeyValue::new("tidegate.allowed", decision.is_allowed()),
        KeyValue::new("tidegate.reason", decision.reason().as_str()),
        KeyValue::new("tidegate.limits", i64::try_from(decision.limits().len()).unwrap_or(i64::MAX)),
        KeyValue::new("tidegate.degraded", decision.degraded().is_some()),
    ];
    if let Some(rule) = decision.violated_rule() {
        attributes.push(KeyValue::new("tidegate.violated_rule", rule.to_owned()));
    }
    if let Some(wait) = decision.queued().map(Nanos::from) {
        let millis = i64::try_from(wait.as_millis_ceil()).unwrap_or(i64::MAX);
        attributes.push(KeyValue::new("tidegate.queued_ms", millis));
    }
    attributes
}

/// The wall-clock time of a monotonic instant close to that of the decision.
fn wall_time(decision: &Decision, instant: Nanos) -> SystemTime {
    let ahead = decision.wall().get().wrapping_sub(decision.at().get()) as i64;
    UNIX_EPOCH + Duration::from_nanos(instant.get().saturating_add_signed(ahead))
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing").finish_non_exhaustive()
    }
}
