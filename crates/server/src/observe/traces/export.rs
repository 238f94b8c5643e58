//! Sending spans away, on threads of its own, so that those that answer never wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanData, SpanExporter as Export,
};
use tidegate::engine::counting::counters::Totals;
use tokio::sync::oneshot;

/// Spans that wait to be sent; more are dropped.
const WAITING_MAX: usize = 8_192;
/// Spans that are sent at once.
const BATCH_MAX: usize = 512;
/// How long a span waits for others.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// A collector that takes longer has failed.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Why no spans can be sent.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The endpoint is none. It may carry a password, so it is not told.
    #[error("otlp.endpoint: this is no address of a collector")]
    Endpoint,
    /// The thread that sends cannot be started.
    #[error("cannot start the thread that sends traces: {0}")]
    Thread(#[from] std::io::Error),
}

/// What became of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanOutcome {
    /// It was made.
    Made,
    /// The collector has it.
    Exported,
    /// The collector did not take it.
    Failed,
}

impl SpanOutcome {
    /// All of them.
    pub const ALL: [SpanOutcome; 3] = [SpanOutcome::Made, SpanOutcome::Exported, SpanOutcome::Failed];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            SpanOutcome::Made => "made",
            SpanOutcome::Exported => "exported",
            SpanOutcome::Failed => "failed",
        }
    }
}

/// How many spans came to what.
#[derive(Debug)]
pub(crate) struct SpanCounts(Totals);

impl Default for SpanCounts {
    fn default() -> SpanCounts {
        SpanCounts(Totals::new(SpanOutcome::ALL.len()))
    }
}

impl SpanCounts {
    pub(crate) fn add(&self, outcome: SpanOutcome, spans: usize) {
        self.0.add_many(outcome as usize, spans as u64);
    }

    pub(crate) fn get(&self, outcome: SpanOutcome) -> u64 {
        self.0.get(outcome as usize)
    }
}

/// The thread on which connections to the collector live. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ExportThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ExportThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It does nothing but wait for this.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// Can spans be sent there? By OTLP over gRPC, without TLS.
pub fn is_endpoint(text: &str) -> bool {
    let address: Result<http::Uri, _> = text.parse();
    address
        .is_ok_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some_and(|host| !host.is_empty()))
}

/// A provider whose spans go to the endpoint.
pub(crate) fn start(
    endpoint: &str,
    counts: Arc<SpanCounts>,
) -> Result<(SdkTracerProvider, ExportThread), TracesError> {
    if !is_endpoint(endpoint) {
        return Err(TracesError::Endpoint);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exporter = {
        let _its_tasks_run_there = runtime.enter();
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint);
        exporter.with_timeout(EXPORT_TIMEOUT).build().map_err(|_| TracesError::Endpoint)?
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name("traces".to_owned()).spawn(move || {
        // An error says that the sender is gone, which is the sign to end.
        let _stopped = runtime.block_on(stopped);
    })?;
    let limits = BatchConfigBuilder::default()
        .with_max_queue_size(WAITING_MAX)
        .with_max_export_batch_size(BATCH_MAX)
        .with_scheduled_delay(BATCH_DELAY);
    let exporter = Counted { exporter, counts, failing: AtomicU64::new(0) };
    let processor = BatchSpanProcessor::builder(exporter).with_batch_config(limits.build()).build();
    let resource = Resource::builder().with_service_name("tidegate").build();
    let provider = SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource);
    Ok((provider.build(), ExportThread { stop: Some(stop), thread: Some(thread) }))
}

/// An exporter that counts what becomes of spans, and tells when that changes.
#[derive(Debug)]
struct Counted<E> {
    exporter: E,
    counts: Arc<SpanCounts>,
    /// Batches that failed since the last that did not.
    failing: AtomicU64,
}

impl<E: Export> Export for Counted<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.exporter.export(batch).await;
        match &result {
            Ok(()) => {
                self.counts.add(SpanOutcome::Exported, spans);
                if self.failing.swap(0, Ordering::Relaxed) > 0 {
                    tracing::info!("traces are taken again");
                }
            }
            Err(error) => {
                self.counts.add(SpanOutcome::Failed, spans);
                if self.failing.fetch_add(1, Ordering::Relaxed) == 0 {
                    tracing::warn!(%error, "the collector does not take traces");
                }
            }
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
