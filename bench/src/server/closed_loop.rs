//! A closed loop: one client thread sends the next request as soon as one is answered, on several connections with
//! several requests in flight on each.

use std::net::SocketAddr;
use std::time::Duration;

use mio::{Events, Poll};

use super::connection::{Connection, ExchangeError};
use super::limits::KeySequence;
use super::machine::busy_seconds;
use super::tally::{LatencyTally, Verdicts};
use super::wire::{CheckedAnswer, ClientProtocol};
use crate::stopwatch::{CpuWatch, Stopwatch};

/// The concurrency of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClosedLoad {
    pub(crate) connections: usize,
    /// Requests in flight on each connection.
    pub(crate) depth: usize,
    /// Whether the next requests are sent together when all are answered, as in a pipeline. Otherwise each response
    /// is followed by one request, as with streams.
    pub(crate) together: bool,
    /// Whether the client polls for responses without sleeping. On a virtual machine, waking an idle core costs the
    /// server more CPU time than a request, and a slower server would pay that more often.
    pub(crate) awake: bool,
}

/// The duration of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadDurations {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// The result of one turn of a contender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnResult {
    pub(crate) verdicts: Verdicts,
    pub(crate) seconds: f64,
    /// CPU seconds of the server, on all threads.
    pub(crate) server_seconds: f64,
    /// CPU seconds of this client.
    pub(crate) client_seconds: f64,
    /// CPU seconds of everything else on the machine; NaN if the system does not report it.
    pub(crate) other_seconds: f64,
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
}

impl TurnResult {
    pub(crate) fn per_second(&self) -> f64 {
        self.verdicts.total() as f64 / self.seconds
    }

    pub(crate) fn per_server_second(&self) -> f64 {
        self.verdicts.total() as f64 / self.server_seconds
    }

    pub(crate) fn server_micros(&self) -> f64 {
        1e6 / self.per_server_second()
    }
}

/// A server that sends nothing for this time has failed.
const SILENCE_SECONDS: u64 = 5;

struct Client<'a> {
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    load: ClosedLoad,
    keys: &'a mut KeySequence,
    watch: Stopwatch,
    answers: Vec<CheckedAnswer>,
}

/// Runs the load for its duration. `server_nanos` reads the server's CPU time.
pub(crate) fn run(
    address: SocketAddr,
    protocol: fn() -> Box<dyn ClientProtocol>,
    load: ClosedLoad,
    keys: &mut KeySequence,
    spans: LoadDurations,
    server_nanos: &dyn Fn() -> std::io::Result<u64>,
) -> Result<TurnResult, ExchangeError> {
    let mut client = Client::connect(address, protocol, load, keys)?;
    client.run_until(spans.warm_up, &mut LatencyTally::default())?;
    let all = busy_seconds();
    let (watch, mine, theirs) = (Stopwatch::start(), CpuWatch::start(), server_nanos()?);
    let mut tally = LatencyTally::default();
    client.run_until(spans.warm_up + spans.measured, &mut tally)?;
    let server_seconds = (server_nanos()? - theirs) as f64 / 1e9;
    let (client_seconds, seconds) = (mine.seconds(), watch.seconds());
    let all = busy_seconds().zip(all).map_or(f64::NAN, |(after, before)| after - before);
    let others = all - server_seconds - client_seconds;
    // Ticks are coarse, so the difference may be negative; `max` would turn NaN into zero.
    let other_seconds = if others < 0.0 { 0.0 } else { others };
    let [p50_micros, p99_micros] = tally.micros();
    let verdicts = tally.verdicts;
    Ok(TurnResult {
        verdicts,
        seconds,
        server_seconds,
        client_seconds,
        other_seconds,
        p50_micros,
        p99_micros,
    })
}

impl<'a> Client<'a> {
    fn connect(
        address: SocketAddr,
        protocol: fn() -> Box<dyn ClientProtocol>,
        load: ClosedLoad,
        keys: &'a mut KeySequence,
    ) -> Result<Client<'a>, ExchangeError> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(load.connections);
        for number in 0..load.connections {
            connections.push(Connection::open(address, protocol(), &poll, number)?);
        }
        let (events, watch) = (Events::with_capacity(load.connections), Stopwatch::start());
        let mut client = Client { poll, events, connections, load, keys, watch, answers: Vec::new() };
        for number in 0..load.connections {
            client.send(number, 0)?;
        }
        Ok(client)
    }

    /// Sends the requests that may be sent on this connection now.
    fn send(&mut self, number: usize, now: u64) -> Result<(), ExchangeError> {
        let connection = &mut self.connections[number];
        if connection.in_flight == 0 || !self.load.together {
            for _ in connection.in_flight..self.load.depth {
                connection.write_request(self.keys.next(), now);
            }
        }
        connection.flush()
    }

    /// Waits until there is something to read, or until the timeout.
    fn wait_for_answers(&mut self) -> std::io::Result<()> {
        let silence = Duration::from_secs(SILENCE_SECONDS);
        if !self.load.awake {
            return self.poll.poll(&mut self.events, Some(silence));
        }
        let began = Stopwatch::start();
        loop {
            self.poll.poll(&mut self.events, Some(Duration::ZERO))?;
            if !self.events.is_empty() || began.seconds() >= silence.as_secs_f64() {
                return Ok(());
            }
        }
    }

    /// Sends requests and counts responses until `end` after the start.
    fn run_until(&mut self, end: Duration, tally: &mut LatencyTally) -> Result<(), ExchangeError> {
        let end = end.as_nanos() as u64;
        while (self.watch.nanos() as u64) < end {
            self.wait_for_answers()?;
            let ready: Vec<usize> = self.events.iter().map(|event| event.token().0).collect();
            if ready.is_empty() {
                return Err(ExchangeError::Silent(SILENCE_SECONDS));
            }
            for number in ready {
                let connection = &mut self.connections[number];
                self.answers.clear();
                connection.receive(&mut self.answers)?;
                let now = self.watch.nanos() as u64;
                for &answer in &self.answers {
                    tally.add(answer.verdict, now.saturating_sub(connection.sent_at(answer)));
                }
                self.send(number, now)?;
            }
        }
        Ok(())
    }
}
