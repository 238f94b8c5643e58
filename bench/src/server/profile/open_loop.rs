//! An open loop: requests are sent on schedule, whether or not earlier ones are answered, as by real clients.

use std::net::SocketAddr;
use std::time::Duration;

use mio::{Events, Poll};

use super::seconds::ProfileSecond;
use super::shapes::Schedule;
use crate::server::connection::{Connection, ExchangeError};
use crate::server::limits::{FREE, KeySequence};
use crate::server::tally::LatencyTally;
use crate::server::wire::CheckedAnswer;
use crate::server::wire::http::Http;
use crate::stopwatch::Stopwatch;

/// The most requests in flight. A request without a free connection waits, and its wait counts as latency.
const CONNECTIONS: usize = 128;
/// How long to wait for responses after the last request.
const DRAIN_NANOS: u64 = 5_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// The result of a profile.
#[derive(Debug)]
pub(super) struct ProfileOutcome {
    pub(super) seconds: Vec<ProfileSecond>,
    pub(super) unanswered: u64,
}

struct Client {
    address: SocketAddr,
    poll: Poll,
    /// Opened on demand; the server closes those that are idle for long.
    connections: Vec<Option<Connection>>,
    /// The indexes of idle connections; the last used one is used first.
    free: Vec<usize>,
    keys: KeySequence,
    schedule: Schedule,
    /// Whether requests are overdue because no connection was free.
    behind: bool,
}

/// Runs the schedule; calls `report` after each second. `resident` reads the server's memory.
pub(super) fn run(
    address: SocketAddr,
    schedule: Schedule,
    resident: &dyn Fn() -> Option<u64>,
    report: &mut dyn FnMut(&ProfileSecond),
) -> Result<ProfileOutcome, ExchangeError> {
    let mut client = Client::new(address, schedule)?;
    let mut events = Events::with_capacity(CONNECTIONS);
    let (watch, end) = (Stopwatch::start(), client.schedule.nanos());
    let (mut seconds, mut tally, mut offered, mut answers) =
        (Vec::new(), LatencyTally::default(), 0, Vec::new());
    let (mut sent, mut answered) = (0_u64, 0_u64);
    loop {
        let now = watch.nanos() as u64;
        if now >= (seconds.len() as u64 + 1) * SECOND && (seconds.len() as u64) < end / SECOND {
            let second =
                ProfileSecond::new(seconds.len() + 1, offered, &mut std::mem::take(&mut tally), resident());
            report(&second);
            seconds.push(second);
            offered = 0;
        }
        let due = client.send_due(now)?;
        (offered, sent) = (offered + due, sent + due);
        let over = client.schedule.due().is_none() && now >= end;
        if over && (answered == sent || now >= end + DRAIN_NANOS) {
            return Ok(ProfileOutcome { seconds, unanswered: sent - answered });
        }
        client.poll.poll(&mut events, Some(Duration::from_millis(1)))?;
        for event in &events {
            let number = event.token().0;
            let Some(connection) = client.receive(number, &mut answers)? else { continue };
            let now = watch.nanos() as u64;
            for answer in answers.drain(..) {
                tally.add(answer.verdict, now.saturating_sub(connection.sent_at(answer)));
                answered += 1;
            }
        }
    }
}

impl Client {
    fn new(address: SocketAddr, schedule: Schedule) -> Result<Client, ExchangeError> {
        let connections = (0..CONNECTIONS).map(|_| None).collect();
        let (poll, free) = (Poll::new()?, Vec::with_capacity(CONNECTIONS));
        Ok(Client { address, poll, connections, free, keys: KeySequence::new(1), schedule, behind: false })
    }

    /// Receives what is available on a connection; drops the connection if the server has closed it while idle.
    fn receive(
        &mut self,
        number: usize,
        answers: &mut Vec<CheckedAnswer>,
    ) -> Result<Option<&Connection>, ExchangeError> {
        let Some(connection) = &mut self.connections[number] else { return Ok(None) };
        match connection.receive(answers).and_then(|()| connection.flush()) {
            Err(ExchangeError::Closed) if connection.in_flight == 0 && answers.is_empty() => {
                self.connections[number] = None;
                self.free.retain(|&free| free != number);
                Ok(None)
            }
            Err(error) => Err(error),
            Ok(()) => {
                // There is one request at a time on a connection, so a response frees it.
                self.free.extend(answers.first().map(|_| number));
                Ok(self.connections[number].as_ref())
            }
        }
    }

    /// An idle connection, opened if needed; `None` if the maximum is open.
    fn free(&mut self) -> Result<Option<usize>, ExchangeError> {
        if let Some(number) = self.free.pop() {
            return Ok(Some(number));
        }
        let Some(number) = self.connections.iter().position(Option::is_none) else { return Ok(None) };
        let connection = Connection::open(self.address, Box::new(Http::check(FREE)), &self.poll, number)?;
        self.connections[number] = Some(connection);
        Ok(Some(number))
    }

    /// Sends the requests that are due and find a connection; returns how many were sent.
    fn send_due(&mut self, now: u64) -> Result<u64, ExchangeError> {
        let mut sent = 0;
        while let Some(due) = self.schedule.due().filter(|&due| due <= now) {
            let Some(number) = self.free()? else {
                self.behind = true;
                return Ok(sent);
            };
            // A delay is the server's fault only if it kept all connections busy; otherwise this program
            // woke up late.
            let at = if self.behind { due } else { now };
            let connection = self.connections[number].as_mut().expect("it is open");
            connection.write_request(self.keys.next(), at);
            connection.flush()?;
            self.schedule.advance();
            sent += 1;
        }
        self.behind = false;
        Ok(sent)
    }
}
