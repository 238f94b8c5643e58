//! Accepts connections, and refuses those beyond the bounds.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use socket2::{SockRef, TcpKeepalive};
use tidegate::{Clock, Nanos};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::bind::BoundListener;
use super::connections::{ConnectionRefusal, Connections};
use super::tls::Tls;
use super::workers::{Job, Workers};
use crate::bounds::{ACCEPT_PAUSE_MAX, KEEPALIVE_INTERVAL, KEEPALIVE_TIME, KERNEL_UNSENT_BYTES_MAX};
use crate::node::Node;
use crate::serve::Peer;
use crate::settings::Listener;

/// Accepts the connections of all listeners.
#[derive(Clone, Debug)]
pub(crate) struct Acceptor {
    node: Arc<Node>,
    workers: Arc<Workers>,
    connections: Arc<Connections>,
    tls: Option<Arc<Tls>>,
}

impl Acceptor {
    pub(crate) fn new(
        node: Arc<Node>,
        workers: Workers,
        connections: Arc<Connections>,
        tls: Option<Arc<Tls>>,
    ) -> Acceptor {
        Acceptor { node, workers: Arc::new(workers), connections, tls }
    }

    /// Accepts connections on one listener, for as long as it is polled.
    pub(crate) async fn accept(self, bound: BoundListener) -> io::Result<()> {
        let BoundListener { listener, address, socket } = bound;
        let socket = TcpListener::from_std(socket)?;
        let mut pause = Pause::default();
        loop {
            match socket.accept().await {
                Ok((stream, from)) => {
                    pause = Pause::default();
                    self.start_connection(listener, address, stream, from);
                }
                // The client disconnected before it was accepted.
                Err(error) if is_of_one_client(&error) => {}
                // Most likely the process is out of file descriptors; they become free as connections end.
                Err(error) => {
                    let pause = pause.next();
                    tracing::warn!(
                        listener = listener.name(),
                        %error,
                        pause_ms = pause.as_millis() as u64,
                        "cannot accept connections"
                    );
                    sleep(pause).await;
                }
            }
        }
    }

    fn start_connection(&self, listener: Listener, address: SocketAddr, stream: TcpStream, from: SocketAddr) {
        let peer = Peer {
            address: from.ip().to_canonical(),
            on_loopback: address.ip().to_canonical().is_loopback(),
            alpn_http2: None,
        };
        let permit = match self.connections.admit(&self.node, listener, peer.address) {
            Ok(permit) => permit,
            Err(refusal) => return self.refuse(listener, &stream, refusal),
        };
        // Errors are ignored: the connection works without these options.
        let keepalive =
            TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL).with_retries(4);
        let _set = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let _set = stream.set_nodelay(true);
        // Without this the kernel buffers megabytes of responses for each client that does not read.
        #[cfg(target_os = "linux")]
        let _set = SockRef::from(&stream).set_tcp_notsent_lowat(KERNEL_UNSENT_BYTES_MAX);
        let tls = match listener {
            Listener::Http | Listener::Grpc => self.tls.as_ref().map(|tls| tls.config()),
            Listener::Admin => self.tls.as_ref().map(|tls| tls.admin_config()),
            Listener::Resp => None,
        };
        let Ok(stream) = stream.into_std() else { return };
        self.workers.assign(Job { node: Arc::clone(&self.node), listener, stream, peer, permit, tls });
    }

    /// Refuses a connection, with an error if the protocol has one. The send buffer of a new connection has space for
    /// it, so one write without waiting is enough.
    fn refuse(&self, listener: Listener, stream: &TcpStream, refusal: ConnectionRefusal) {
        self.node.metrics().connection_refused(listener);
        tracing::warn!(listener = listener.name(), %refusal, "a connection was refused");
        let response = match listener {
            Listener::Resp => "-ERR max number of clients reached\r\n".to_owned(),
            Listener::Http | Listener::Admin if self.tls.is_some() => return,
            Listener::Http | Listener::Admin => unavailable(self.node.clock().wall()),
            Listener::Grpc => return,
        };
        let _sent = stream.try_write(response.as_bytes());
    }
}

fn unavailable(now: Nanos) -> String {
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_nanos(now.get()));
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncache-control: no-store\r\nretry-after: 1\r\n\
         date: {date}\r\ncontent-length: 0\r\n\r\n"
    )
}

fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Pauses that double, up to [`ACCEPT_PAUSE_MAX`].
#[derive(Default)]
struct Pause(Duration);

impl Pause {
    fn next(&mut self) -> Duration {
        self.0 = (self.0 * 2).clamp(Duration::from_millis(10), ACCEPT_PAUSE_MAX);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn being_turned_away_is_nothing_to_be_kept() {
        let said = unavailable(Nanos::from_secs(1_800_000_000));
        assert!(said.contains("\r\ndate: Fri, 15 Jan 2027 08:00:00 GMT\r\n"), "{said}");
        assert!(
            said.starts_with("HTTP/1.1 503 ") && said.ends_with("\r\ncontent-length: 0\r\n\r\n"),
            "{said}"
        );
        assert!(said.contains("\r\ncache-control: no-store\r\n"), "{said}");
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        let mut pause = Pause::default();
        let pauses: Vec<u128> = (0..9).map(|_| pause.next().as_millis()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
    }
}
