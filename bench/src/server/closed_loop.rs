//! Asks as fast as it is answered: one thread, some connections, some questions under way on each.

use std::net::SocketAddr;
use std::time::Duration;

use mio::{Events, Poll};

use super::connection::{Connection, TalkError};
use super::limits::KeySequence;
use super::machine::busy_seconds;
use super::tally::{LatencyTally, Verdicts};
use super::wire::{CheckedAnswer, Dialogue};
use crate::stopwatch::{CpuWatch, Stopwatch};

/// How much is asked at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClosedLoad {
    pub(crate) connections: usize,
    /// Questions under way on each connection.
    pub(crate) depth: usize,
    /// Are the next ones asked together when all are answered, as a pipeline does? Otherwise each is
    /// followed by another one, as streams do.
    pub(crate) together: bool,
    /// Does the client look for answers without ever sleeping? Waking an idle core costs the server's side of a virtual
    /// machine more than many a request, and a slower server would be charged for it more often.
    pub(crate) awake: bool,
}

/// How long it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadDurations {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// What one contender did in its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnResult {
    pub(crate) verdicts: Verdicts,
    pub(crate) seconds: f64,
    /// Seconds of processor that the server took, on all threads.
    pub(crate) server_seconds: f64,
    /// And this client.
    pub(crate) client_seconds: f64,
    /// And everything else on the machine; no number where the system does not say.
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

/// A server that does not answer anything for so long has failed.
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

/// Asks for as long as the spans say. `server_nanos` reads the server's processor time.
pub(crate) fn run(
    address: SocketAddr,
    dialogue: fn() -> Box<dyn Dialogue>,
    load: ClosedLoad,
    keys: &mut KeySequence,
    spans: LoadDurations,
    server_nanos: &dyn Fn() -> std::io::Result<u64>,
) -> Result<TurnResult, TalkError> {
    let mut client = Client::connect(address, dialogue, load, keys)?;
    client.ask_until(spans.warm_up, &mut LatencyTally::default())?;
    let all = busy_seconds();
    let (watch, mine, theirs) = (Stopwatch::start(), CpuWatch::start(), server_nanos()?);
    let mut tally = LatencyTally::default();
    client.ask_until(spans.warm_up + spans.measured, &mut tally)?;
    let server_seconds = (server_nanos()? - theirs) as f64 / 1e9;
    let (client_seconds, seconds) = (mine.seconds(), watch.seconds());
    let all = busy_seconds().zip(all).map_or(f64::NAN, |(after, before)| after - before);
    let others = all - server_seconds - client_seconds;
    // Ticks are coarse; nobody takes less than nothing. `max` would make zero of what was not told.
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
        dialogue: fn() -> Box<dyn Dialogue>,
        load: ClosedLoad,
        keys: &'a mut KeySequence,
    ) -> Result<Client<'a>, TalkError> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(load.connections);
        for number in 0..load.connections {
            connections.push(Connection::open(address, dialogue(), &poll, number)?);
        }
        let (events, watch) = (Events::with_capacity(load.connections), Stopwatch::start());
        let mut client = Client { poll, events, connections, load, keys, watch, answers: Vec::new() };
        for number in 0..load.connections {
            client.ask(number, 0)?;
        }
        Ok(client)
    }

    /// Asks what may be asked on this connection now.
    fn ask(&mut self, number: usize, now: u64) -> Result<(), TalkError> {
        let connection = &mut self.connections[number];
        if connection.under_way == 0 || !self.load.together {
            for _ in connection.under_way..self.load.depth {
                connection.ask(self.keys.next(), now);
            }
        }
        connection.flush()
    }

    /// Waits until there is something to read, or for so long that there is none.
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

    /// Asks and counts until so long after the start.
    fn ask_until(&mut self, end: Duration, tally: &mut LatencyTally) -> Result<(), TalkError> {
        let end = end.as_nanos() as u64;
        while (self.watch.nanos() as u64) < end {
            self.wait_for_answers()?;
            let ready: Vec<usize> = self.events.iter().map(|event| event.token().0).collect();
            if ready.is_empty() {
                return Err(TalkError::Silent(SILENCE_SECONDS));
            }
            for number in ready {
                let connection = &mut self.connections[number];
                self.answers.clear();
                connection.listen(&mut self.answers)?;
                let now = self.watch.nanos() as u64;
                for &answer in &self.answers {
                    tally.add(answer.verdict, now.saturating_sub(connection.asked_at(answer)));
                }
                self.ask(number, now)?;
            }
        }
        Ok(())
    }
}
