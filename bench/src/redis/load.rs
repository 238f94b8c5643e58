//! Many concurrent requests, as fast as possible or at a fixed rate.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Redis, RedisError};
use crate::stopwatch::Stopwatch;

/// The arrival of requests.
#[derive(Clone, Copy, Debug)]
pub(super) enum ArrivalPace {
    /// Each as soon as the one before is answered, for this time.
    Full(Duration),
    /// At this rate per second, for this time.
    Even(u64, Duration),
}

impl ArrivalPace {
    /// The same for another time.
    pub(super) fn lasting(self, span: Duration) -> ArrivalPace {
        match self {
            ArrivalPace::Full(_) => ArrivalPace::Full(span),
            ArrivalPace::Even(rate, _) => ArrivalPace::Even(rate, span),
        }
    }
}

/// The result of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadResult {
    pub(super) decisions: u64,
    /// Scripts that the server ran.
    pub(super) calls: u64,
    seconds: f64,
    server_seconds: f64,
}

impl LoadResult {
    pub(super) fn per_server_second(&self) -> f64 {
        self.decisions as f64 / self.server_seconds
    }

    pub(super) fn per_second(&self) -> f64 {
        self.decisions as f64 / self.seconds
    }

    pub(super) fn calls_per_decision(&self) -> f64 {
        self.calls.max(1) as f64 / self.decisions as f64
    }
}

/// Sends requests and counts. Every request must be admitted, because a denial takes another code path.
pub(super) async fn run<F, E>(
    redis: &Redis,
    under_way: usize,
    pace: ArrivalPace,
    one: impl Fn(u64) -> F,
) -> Result<LoadResult, RedisError>
where
    F: Future<Output = Result<bool, E>>,
    RedisError: From<E>,
{
    let (next, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    let (calls, cpu) = (redis.script_calls().await?, redis.cpu_seconds()?);
    let watch = Stopwatch::start();
    let client = async || -> Result<(), RedisError> {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            match pace {
                ArrivalPace::Full(span) if watch.seconds() >= span.as_secs_f64() => return Ok(()),
                ArrivalPace::Even(rate, span) => {
                    let due = place as f64 / rate as f64;
                    if due >= span.as_secs_f64() {
                        return Ok(());
                    }
                    wait_until(watch, due).await;
                }
                ArrivalPace::Full(_) => {}
            }
            if one(place).await? {
                answered.fetch_add(1, Ordering::Relaxed);
            }
            // A decision made locally never awaits, so yield to let the other requests run.
            if place.is_multiple_of(256) {
                tokio::task::yield_now().await;
            }
        }
    };
    let clients = (0..under_way).map(|_| Box::pin(client()));
    for done in join_all(clients).await {
        done?;
    }
    let (seconds, server_seconds) = (watch.seconds(), redis.cpu_seconds()? - cpu);
    let decisions = answered.load(Ordering::Relaxed);
    Ok(LoadResult { decisions, calls: redis.script_calls().await? - calls, seconds, server_seconds })
}

async fn wait_until(watch: Stopwatch, due: f64) {
    let early = due - watch.seconds();
    if early > 0.0 {
        tokio::time::sleep(Duration::from_secs_f64(early)).await;
    }
}

/// Polls all of them on this task, so that one can run while others wait.
async fn join_all<F: Future + Unpin>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<F> = futures.collect();
    let mut done = Vec::with_capacity(running.len());
    std::future::poll_fn(move |context| {
        running.retain_mut(|future| match std::pin::Pin::new(future).poll(context) {
            std::task::Poll::Ready(output) => {
                done.push(output);
                false
            }
            std::task::Poll::Pending => true,
        });
        if running.is_empty() {
            std::task::Poll::Ready(std::mem::take(&mut done))
        } else {
            std::task::Poll::Pending
        }
    })
    .await
}
