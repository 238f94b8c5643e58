//! Sends the requests of the demo to the HTTP listener: a fixed number of connections, each at its part of the rate.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::traffic::Traffic;

/// How many connections are open. Requests that wait in a queue occupy some of them for a moment.
pub(super) const CONNECTIONS: u32 = 16;
/// The pause before a lost connection is opened again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1_024;
/// The seed of the requests: each demo has the same.
const SEED: u64 = 2_027;

/// What was answered.
#[derive(Debug, Default)]
pub(super) struct Answered {
    pub(super) admitted: Cell<u64>,
    pub(super) refused: Cell<u64>,
}

/// Sends requests until the future is dropped. It runs in a `LocalSet`.
pub(super) async fn send(to: SocketAddr, rate: u32, answered: Rc<Answered>) {
    let started = tokio::time::Instant::now();
    let pause = Duration::from_secs(1) * CONNECTIONS / rate;
    let mut connections = JoinSet::new();
    for number in 0..CONNECTIONS {
        let (traffic, answered) = (Traffic::new(SEED + u64::from(number)), Rc::clone(&answered));
        connections.spawn_local(async move {
            // So that the connections take turns.
            sleep(pause * number / CONNECTIONS).await;
            one_connection(to, pause, started, traffic, &answered).await;
        });
    }
    while connections.join_next().await.is_some() {}
}

/// Sends requests on one connection, which is opened again when it is lost.
async fn one_connection(
    to: SocketAddr,
    pause: Duration,
    started: Instant,
    mut traffic: Traffic,
    answered: &Answered,
) {
    loop {
        if let Err(error) = requests(to, pause, started, &mut traffic, answered).await {
            tracing::debug!(%error, "a connection of the demo was lost");
        }
        sleep(RECONNECT_PAUSE).await;
    }
}

async fn requests(
    to: SocketAddr,
    pause: Duration,
    started: Instant,
    traffic: &mut Traffic,
    answered: &Answered,
) -> io::Result<()> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // It ends with the sender.
    tokio::task::spawn_local(connection);
    let mut ticks = interval(pause);
    // What could not be sent in time is left out, so that nothing comes at once after a pause.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let Some(body) = traffic.next(started.elapsed()) else { continue };
        let counter = match ask(&mut sender, to, body.to_string()).await.map_err(io::Error::other)? {
            StatusCode::OK => &answered.admitted,
            _ => &answered.refused,
        };
        counter.set(counter.get() + 1);
    }
}

/// Asks for one decision.
async fn ask(
    sender: &mut SendRequest<Full<Bytes>>,
    to: SocketAddr,
    body: String,
) -> Result<StatusCode, Box<dyn std::error::Error + Send + Sync>> {
    let request = Request::post("/v1/check").header("host", to.to_string()).body(Full::new(body.into()))?;
    sender.ready().await?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await?;
    Ok(status)
}
