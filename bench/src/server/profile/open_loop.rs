//! Asks when it is time to, whether or not earlier questions are answered: what real clients do.

use std::net::SocketAddr;
use std::time::Duration;

use mio::{Events, Poll};

use super::seconds::ProfileSecond;
use super::shapes::Schedule;
use crate::server::connection::{Connection, TalkError};
use crate::server::limits::{FREE, KeySequence};
use crate::server::tally::LatencyTally;
use crate::server::wire::CheckedAnswer;
use crate::server::wire::http::Http;
use crate::stopwatch::Stopwatch;

/// Requests that can be under way at once. One that finds no connection waits, and its wait counts.
const CONNECTIONS: usize = 128;
/// How long answers are waited for after the last request.
const DRAIN_NANOS: u64 = 5_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// What happened.
#[derive(Debug)]
pub(super) struct ProfileOutcome {
    pub(super) seconds: Vec<ProfileSecond>,
    pub(super) unanswered: u64,
}

struct Client {
    address: SocketAddr,
    poll: Poll,
    /// Opened when they are needed; the server closes those that are not for long.
    connections: Vec<Option<Connection>>,
    /// Numbers of connections that nothing is under way on; the last used is used again first.
    free: Vec<usize>,
    keys: KeySequence,
    schedule: Schedule,
    /// Are requests overdue because no connection was free?
    behind: bool,
}

/// Runs the schedule; tells each second when it is over. `resident` reads the server's memory.
pub(super) fn run(
    address: SocketAddr,
    schedule: Schedule,
    resident: &dyn Fn() -> Option<u64>,
    tell: &mut dyn FnMut(&ProfileSecond),
) -> Result<ProfileOutcome, TalkError> {
    let mut client = Client::new(address, schedule)?;
    let mut events = Events::with_capacity(CONNECTIONS);
    let (watch, end) = (Stopwatch::start(), client.schedule.nanos());
    let (mut seconds, mut tally, mut offered, mut answers) =
        (Vec::new(), LatencyTally::default(), 0, Vec::new());
    let (mut asked, mut answered) = (0_u64, 0_u64);
    loop {
        let now = watch.nanos() as u64;
        if now >= (seconds.len() as u64 + 1) * SECOND && (seconds.len() as u64) < end / SECOND {
            let second =
                ProfileSecond::new(seconds.len() + 1, offered, &mut std::mem::take(&mut tally), resident());
            tell(&second);
            seconds.push(second);
            offered = 0;
        }
        let due = client.ask_what_is_due(now)?;
        (offered, asked) = (offered + due, asked + due);
        let over = client.schedule.due().is_none() && now >= end;
        if over && (answered == asked || now >= end + DRAIN_NANOS) {
            return Ok(ProfileOutcome { seconds, unanswered: asked - answered });
        }
        client.poll.poll(&mut events, Some(Duration::from_millis(1)))?;
        for event in &events {
            let number = event.token().0;
            let Some(connection) = client.listen(number, &mut answers)? else { continue };
            let now = watch.nanos() as u64;
            for answer in answers.drain(..) {
                tally.add(answer.verdict, now.saturating_sub(connection.asked_at(answer)));
                answered += 1;
            }
        }
    }
}

impl Client {
    fn new(address: SocketAddr, schedule: Schedule) -> Result<Client, TalkError> {
        let connections = (0..CONNECTIONS).map(|_| None).collect();
        let (poll, free) = (Poll::new()?, Vec::with_capacity(CONNECTIONS));
        Ok(Client { address, poll, connections, free, keys: KeySequence::new(1), schedule, behind: false })
    }

    /// Receives what there is on a connection; none is left if the server has closed one that was idle.
    fn listen(
        &mut self,
        number: usize,
        answers: &mut Vec<CheckedAnswer>,
    ) -> Result<Option<&Connection>, TalkError> {
        let Some(connection) = &mut self.connections[number] else { return Ok(None) };
        match connection.listen(answers).and_then(|()| connection.flush()) {
            Err(TalkError::Closed) if connection.under_way == 0 && answers.is_empty() => {
                self.connections[number] = None;
                self.free.retain(|&free| free != number);
                Ok(None)
            }
            Err(error) => Err(error),
            Ok(()) => {
                // One is asked at a time: an answer is the end of it.
                self.free.extend(answers.first().map(|_| number));
                Ok(self.connections[number].as_ref())
            }
        }
    }

    /// A connection that nothing is under way on, opened if need be; `None` when there are enough.
    fn free(&mut self) -> Result<Option<usize>, TalkError> {
        if let Some(number) = self.free.pop() {
            return Ok(Some(number));
        }
        let Some(number) = self.connections.iter().position(Option::is_none) else { return Ok(None) };
        let connection = Connection::open(self.address, Box::new(Http::check(FREE)), &self.poll, number)?;
        self.connections[number] = Some(connection);
        Ok(Some(number))
    }

    /// Asks what is due and finds a connection; tells how many were asked.
    fn ask_what_is_due(&mut self, now: u64) -> Result<u64, TalkError> {
        let mut asked = 0;
        while let Some(due) = self.schedule.due().filter(|&due| due <= now) {
            let Some(number) = self.free()? else {
                self.behind = true;
                return Ok(asked);
            };
            // Being late is the server's fault only if it kept all connections busy; otherwise this
            // program woke up late.
            let at = if self.behind { due } else { now };
            let connection = self.connections[number].as_mut().expect("it is open");
            connection.ask(self.keys.next(), at);
            connection.flush()?;
            self.schedule.advance();
            asked += 1;
        }
        self.behind = false;
        Ok(asked)
    }
}
