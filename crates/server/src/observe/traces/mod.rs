//! Decisions as spans.

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

use export::{ExportThread, SpanCounts};

pub use export::{SpanOutcome, TracesError, is_endpoint};

/// Spans that wait have this long to be sent when the server ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// The protocol that a question came by.
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

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Rls => "rls",
            Protocol::ExtAuthz => "ext_authz",
            Protocol::Resp => "resp",
        }
    }
}

/// Where a question came from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// By which protocol.
    pub protocol: Protocol,
    /// The trace it belongs to, as `traceparent` says it.
    pub traceparent: Option<&'a str>,
}

/// The same for a decision that has to be waited for.
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

/// Where spans go; nowhere unless it is set up.
#[derive(Debug, Default)]
pub struct Traces {
    on: Option<Box<Tracing>>,
}

struct Tracing {
    tracer: SdkTracer,
    provider: SdkTracerProvider,
    counts: Arc<SpanCounts>,
    /// Ends with this.
    _thread: ExportThread,
}

impl Traces {
    /// Sends spans to an OTLP/gRPC endpoint, from threads of its own. Nothing is sent yet, so that the
    /// collector need not be there.
    ///
    /// # Errors
    /// When the endpoint is none, or a thread cannot be started.
    pub fn to(endpoint: &str) -> Result<Traces, TracesError> {
        let counts = Arc::new(SpanCounts::default());
        let (provider, thread) = export::start(endpoint, Arc::clone(&counts))?;
        let tracer = provider.tracer("tidegate");
        Ok(Traces { on: Some(Box::new(Tracing { tracer, provider, counts, _thread: thread })) })
    }

    /// Does anybody want spans?
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// A decision that began and ended then.
    #[inline]
    pub fn decided(&self, origin: Origin<'_>, decision: &Decision, began: Nanos, ended: Nanos) {
        if let Some(tracing) = &self.on {
            tracing.record(origin, decision, began, ended);
        }
    }

    /// How many spans came to what.
    pub fn spans(&self, outcome: SpanOutcome) -> u64 {
        self.on.as_ref().map_or(0, |tracing| tracing.counts.get(outcome))
    }

    /// Sends what waits, for a few seconds at most; spans after this are lost. Blocks.
    pub fn shutdown(&self) {
        if let Some(tracing) = &self.on {
            // What could not be sent has been counted and logged where it failed.
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

/// What is told of a decision. Never who asked: a limit's name is the policy's, a key is the client's.
fn attributes(protocol: Protocol, decision: &Decision) -> Vec<KeyValue> {
    let mut told = vec![
        KeyValue::new("tidegate.protocol", protocol.as_str()),
        KeyValue::new("tidegate.allowed", decision.is_allowed()),
        KeyValue::new("tidegate.reason", decision.reason().as_str()),
        KeyValue::new("tidegate.limits", i64::try_from(decision.limits().len()).unwrap_or(i64::MAX)),
        KeyValue::new("tidegate.degraded", decision.degraded().is_some()),
    ];
    if let Some(rule) = decision.violated_rule() {
        told.push(KeyValue::new("tidegate.violated_rule", rule.to_owned()));
    }
    if let Some(wait) = decision.queued().map(Nanos::from) {
        let millis = i64::try_from(wait.as_millis_ceil()).unwrap_or(i64::MAX);
        told.push(KeyValue::new("tidegate.queued_ms", millis));
    }
    told
}

/// What the wall clock showed at an instant about that of a decision.
fn wall_time(decision: &Decision, instant: Nanos) -> SystemTime {
    let ahead = decision.wall().get().wrapping_sub(decision.at().get()) as i64;
    UNIX_EPOCH + Duration::from_nanos(instant.get().saturating_add_signed(ahead))
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing").finish_non_exhaustive()
    }
}
