//! Threads that answer, each with a runtime of its own: a connection stays with the thread it is
//! given to, so that nothing about it is shared.

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
use crate::serve::backlog::progress::StallGuard;
use crate::settings::Listener;

/// A connection to answer.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) node: Arc<Node>,
    pub(crate) listener: Listener,
    pub(crate) stream: std::net::TcpStream,
    pub(crate) peer: Peer,
    pub(crate) permit: Permit,
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

/// The threads.
#[derive(Debug)]
pub(crate) struct Workers {
    threads: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    jobs: mpsc::UnboundedSender<(Job, Busy)>,
    /// How many connections it has.
    load: Arc<AtomicUsize>,
}

/// A connection counts for its thread until this is dropped.
#[derive(Debug)]
struct Busy(Arc<AtomicUsize>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// As many as asked for, or one fewer than there are cores: the rest of the server, the kernel and the
    /// proxy beside it need one too, and a thread that is busy answers at a lower cost than two that
    /// mostly sleep.
    pub(crate) fn start(count: Option<usize>) -> std::io::Result<Workers> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let count = count.unwrap_or_else(|| cores() - 1);
        let threads = (0..count.max(1)).map(Worker::start).collect::<Result<_, _>>()?;
        Ok(Workers { threads })
    }

    /// Gives a connection to the thread that has the fewest.
    pub(crate) fn hand_out(&self, job: Job) {
        let load = |worker: &&Worker| worker.load.load(Ordering::Relaxed);
        let worker = self.threads.iter().min_by_key(load).expect("there is at least one");
        worker.load.fetch_add(1, Ordering::Relaxed);
        let busy = Busy(Arc::clone(&worker.load));
        // A thread that is gone has ended with the server.
        let _handed = worker.jobs.send((job, busy));
    }
}

impl Worker {
    fn start(number: usize) -> std::io::Result<Worker> {
        let (sender, mut jobs) = mpsc::unbounded_channel::<(Job, Busy)>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
            runtime.block_on(async move {
                while let Some((job, busy)) = jobs.recv().await {
                    // A panic ends the task it is in, and no other.
                    tokio::spawn(async move {
                        let _busy = busy;
                        answer(job).await;
                    });
                }
            });
        })?;
        Ok(Worker { jobs: sender, load: Arc::default() })
    }
}

/// Each way to answer is a box of its own: otherwise every connection, idle ones included, would take
/// the memory of the largest.
async fn answer(job: Job) {
    let Job { node, listener, stream, mut peer, permit: _permit, tls } = job;
    let Ok(mut stream) = TcpStream::from_std(stream) else { return };
    if let Some(config) = tls {
        let stream = StallGuard::new(stream);
        let handshake = timeout(HANDSHAKE_TIMEOUT, Box::pin(TlsAcceptor::from(config).accept(stream)));
        let stream = match handshake.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(listener = listener.name(), %error, "no TLS handshake");
                return;
            }
            Err(_) => return,
        };
        peer.alpn_http2 = Some(stream.get_ref().1.alpn_protocol() == Some(b"h2"));
        match listener {
            Listener::Grpc => Box::pin(crate::grpc::serve(node, stream, peer)).await,
            _ => Box::pin(crate::http::serve(node, stream, peer)).await,
        }
        return;
    }
    // Clients of the Redis protocol keep connections for later; the others come to ask something. HTTP waits
    // for its first bytes itself.
    if !matches!(listener, Listener::Resp | Listener::Http) && !speaks(&node, listener, &stream).await {
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

/// Does the first byte come in time? When the server ends, only those that ask how it is are waited for.
async fn speaks(node: &Node, listener: Listener, stream: &TcpStream) -> bool {
    let mut first = [0];
    tokio::select! {
        seen = timeout(HEAD_TIMEOUT, stream.peek(&mut first)) => matches!(seen, Ok(Ok(1))),
        () = node.lifecycle().closing(), if listener != Listener::Admin => false,
    }
}
