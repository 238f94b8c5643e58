//! The worker threads, each with its own single-threaded runtime. A connection stays on the thread it was assigned to,
//! so its state is never shared between threads. Connections of the admin listener have a thread of their own: they delay no
//! decision, and a health check waits neither for decisions nor for the control plane, whose thread answers the admin API.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::ServerConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::connections::Permit;
use crate::bounds::{HANDSHAKE_TIMEOUT, HEAD_TIMEOUT};
use crate::node::Node;
use crate::serve::Peer;
use crate::serve::backlog::stall_guard::StallGuard;
use crate::settings::Listener;

/// A connection to serve.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) node: Arc<Node>,
    pub(crate) listener: Listener,
    pub(crate) stream: std::net::TcpStream,
    pub(crate) peer: Peer,
    pub(crate) permit: Permit,
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

/// The worker threads.
#[derive(Debug)]
pub(crate) struct Workers {
    threads: Vec<Worker>,
    /// The thread of the admin listener.
    admin: Worker,
}

#[derive(Debug)]
struct Worker {
    jobs: mpsc::UnboundedSender<(Job, LoadGuard)>,
    /// How many connections the thread has.
    load: Arc<AtomicUsize>,
}

/// Counts a connection for its thread until this is dropped.
#[derive(Debug)]
struct LoadGuard(Arc<AtomicUsize>);

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// Starts `count` threads, or by default one fewer than there are cores: the rest of the server, the kernel and a
    /// proxy on the same machine need a core too, and one busy thread costs less per request than two that mostly
    /// sleep.
    pub(crate) fn start(count: Option<usize>) -> std::io::Result<Workers> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let count = count.unwrap_or_else(|| cores() - 1);
        let worker = |number: usize| Worker::start(format!("worker-{number}"));
        let threads = (0..count.max(1)).map(worker).collect::<Result<_, _>>()?;
        Ok(Workers { threads, admin: Worker::start("admin".to_owned())? })
    }

    /// Gives a connection to the thread of its listener, or to the one that has the fewest connections.
    pub(crate) fn assign(&self, job: Job) {
        let load = |worker: &&Worker| worker.load.load(Ordering::Relaxed);
        let worker = match job.listener {
            Listener::Admin => &self.admin,
            Listener::Http | Listener::Grpc | Listener::Resp => {
                self.threads.iter().min_by_key(load).expect("`start` creates at least one thread")
            }
        };
        worker.load.fetch_add(1, Ordering::Relaxed);
        let load_guard = LoadGuard(Arc::clone(&worker.load));
        // A thread ends only when the server does.
        let _sent = worker.jobs.send((job, load_guard));
    }
}

impl Worker {
    fn start(name: String) -> std::io::Result<Worker> {
        let (sender, mut jobs) = mpsc::unbounded_channel::<(Job, LoadGuard)>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name(name).spawn(move || {
            runtime.block_on(async move {
                while let Some((job, load_guard)) = jobs.recv().await {
                    // A panic ends only this connection's task.
                    tokio::spawn(async move {
                        let _busy = load_guard;
                        serve(job).await;
                    });
                }
            });
        })?;
        Ok(Worker { jobs: sender, load: Arc::default() })
    }
}

/// Serves one connection. Each protocol's future is boxed: unboxed, every connection, idle ones included, would take
/// the memory of the largest.
async fn serve(job: Job) {
    let Job { node, listener, stream, mut peer, permit: _permit, tls } = job;
    let Ok(mut stream) = TcpStream::from_std(stream) else { return };
    if let Some(config) = tls {
        let stream = StallGuard::new(stream);
        let handshake = timeout(HANDSHAKE_TIMEOUT, Box::pin(TlsAcceptor::from(config).accept(stream)));
        let stream = match handshake.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(listener = listener.name(), %error, "the TLS handshake failed");
                return;
            }
            Err(_) => return,
        };
        peer.alpn_http2 = Some(stream.get_ref().1.alpn_protocol() == Some(b"h2"));
        match listener {
            Listener::Grpc => Box::pin(crate::grpc::serve(node, stream, peer)).await,
            Listener::Admin => Box::pin(crate::admin::serve(node, stream, peer)).await,
            Listener::Http | Listener::Resp => Box::pin(crate::http::serve(node, stream, peer)).await,
        }
        return;
    }
    // Redis clients open connections in advance and may send nothing at first. HTTP waits for its first bytes itself.
    if !matches!(listener, Listener::Resp | Listener::Http)
        && !first_byte_arrives(&node, listener, &stream).await
    {
        let _ended = stream.shutdown().await;
        return;
    }
    let stream = StallGuard::new(stream);
    match listener {
        Listener::Http => Box::pin(crate::http::serve(node, stream, peer)).await,
        Listener::Grpc => Box::pin(crate::grpc::serve(node, stream, peer)).await,
        Listener::Resp => Box::pin(crate::resp::serve(node, stream, peer)).await,
        Listener::Admin => Box::pin(crate::admin::serve(node, stream, peer)).await,
    }
}

/// Does the first byte arrive in time? During shutdown, only the admin listener still waits for it.
async fn first_byte_arrives(node: &Node, listener: Listener, stream: &TcpStream) -> bool {
    let mut first = [0];
    tokio::select! {
        seen = timeout(HEAD_TIMEOUT, stream.peek(&mut first)) => matches!(seen, Ok(Ok(1))),
        () = node.lifecycle().closing(), if listener != Listener::Admin => false,
    }
}
