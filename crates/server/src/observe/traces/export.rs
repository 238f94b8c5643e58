//! Exports spans by OTLP from its own threads, so that worker threads never wait for the collector.

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

/// Capacity of the queue of spans; further spans are dropped.
const QUEUE_MAX: usize = 8_192;
/// Spans in one export.
const BATCH_MAX: usize = 512;
/// How long a span waits for a batch to fill.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// An export that takes longer has failed.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The endpoint is invalid. The message does not repeat it, as it may contain a password.
    #[error("otlp.endpoint: this is not the URL of a collector; write it as http://127.0.0.1:4317")]
    Endpoint,
    /// The exporting thread cannot be started.
    #[error("cannot start the thread that sends traces: {0}")]
    Thread(#[from] std::io::Error),
}

/// The outcome of a span, for the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanOutcome {
    /// It was created.
    Made,
    /// The collector has accepted it.
    Exported,
    /// Its export failed.
    Failed,
}

impl SpanOutcome {
    /// All of them.
    pub const ALL: [SpanOutcome; 3] = [SpanOutcome::Made, SpanOutcome::Exported, SpanOutcome::Failed];

    /// Its label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            SpanOutcome::Made => "made",
            SpanOutcome::Exported => "exported",
            SpanOutcome::Failed => "failed",
        }
    }
}

/// How many spans had which outcome.
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

/// The thread that runs the connections to the collector. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ExportThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ExportThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Dropping the sender has ended its only future.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// Is it a URL that spans can be sent to, by OTLP over gRPC without TLS?
pub fn is_endpoint(text: &str) -> bool {
    let address: Result<http::Uri, _> = text.parse();
    address
        .is_ok_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some_and(|host| !host.is_empty()))
}

/// A tracer provider whose spans go to the endpoint.
pub(crate) fn start(
    endpoint: &str,
    counts: Arc<SpanCounts>,
) -> Result<(SdkTracerProvider, ExportThread), TracesError> {
    if !is_endpoint(endpoint) {
        return Err(TracesError::Endpoint);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exporter = {
        // The exporter spawns its tasks on this runtime.
        let _context = runtime.enter();
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint);
        exporter.with_timeout(EXPORT_TIMEOUT).build().map_err(|_| TracesError::Endpoint)?
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name("traces".to_owned()).spawn(move || {
        // The sender is dropped to end the thread, so this always returns an error.
        let _stopped = runtime.block_on(stopped);
    })?;
    let limits = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE_MAX)
        .with_max_export_batch_size(BATCH_MAX)
        .with_scheduled_delay(BATCH_DELAY);
    let exporter = Counted { exporter, counts, failing: AtomicU64::new(0) };
    let processor = BatchSpanProcessor::builder(exporter).with_batch_config(limits.build()).build();
    let resource = Resource::builder().with_service_name("tidegate").build();
    let provider = SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource);
    Ok((provider.build(), ExportThread { stop: Some(stop), thread: Some(thread) }))
}

/// An exporter that counts the outcomes of spans, and logs when exports begin to fail or work again.
#[derive(Debug)]
struct Counted<E> {
    exporter: E,
    counts: Arc<SpanCounts>,
    /// Failed batches since the last successful one.
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
                    tracing::info!("the collector accepts traces again");
                }
            }
            Err(error) => {
                self.counts.add(SpanOutcome::Failed, spans);
                if self.failing.fetch_add(1, Ordering::Relaxed) == 0 {
                    tracing::warn!(%error, "cannot export traces: the collector does not accept them");
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
