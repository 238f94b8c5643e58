//! The three window algorithms, computed from the history of all admitted requests.

use super::exact::{Exact, fraction, whole};
use super::meter::{Algorithm, Quota};

/// The instants and costs of admitted requests.
type Admitted = [(i128, i128)];

/// How much is left, the nanoseconds until all usage has expired, and the time until the cost fits, which is meaningful
/// only if the cost is at most the limit.
pub(crate) fn look(admitted: &Admitted, quota: &Quota, cost: i128, now: i128) -> (Exact, i128, Exact) {
    match quota.algorithm {
        // After the limit was lowered, everything admitted still counts, but a window counts at most the new limit.
        Algorithm::SlidingWindow => look_sliding(&trimmed(admitted, quota), quota, cost, now),
        Algorithm::FixedWindow => look_fixed(&trimmed(admitted, quota), quota, cost, now),
        Algorithm::SlidingLog => look_log(admitted, quota, cost, now),
        Algorithm::TokenBucket => panic!("a bucket has no windows"),
    }
}

/// The history with this cost added. Of what was admitted in larger numbers, a window keeps at most twice the limit; a
/// log keeps everything.
pub(crate) fn charge(admitted: &Admitted, quota: &Quota, cost: i128, now: i128) -> Vec<(i128, i128)> {
    let kept = match quota.algorithm {
        Algorithm::SlidingLog => admitted.to_vec(),
        _ => trimmed(admitted, &Quota { capacity: 2 * quota.capacity, ..quota.clone() }),
    };
    kept.into_iter().chain([(now, cost)]).collect()
}

/// The usage that counts under a limit: each window at most up to the limit.
fn trimmed(admitted: &Admitted, quota: &Quota) -> Vec<(i128, i128)> {
    let mut kept: Vec<(i128, i128)> = Vec::new();
    for (at, cost) in admitted {
        let room = quota.capacity - counted(&kept, quota, at / quota.window);
        kept.push((*at, (*cost).min(room)));
    }
    kept
}

/// The cost admitted in an aligned window, by the window's number.
fn counted(admitted: &Admitted, quota: &Quota, window: i128) -> i128 {
    admitted.iter().filter(|(at, _)| at / quota.window == window).map(|(_, cost)| cost).sum()
}

fn look_fixed(admitted: &Admitted, quota: &Quota, cost: i128, now: i128) -> (Exact, i128, Exact) {
    let window = now / quota.window;
    let left = quota.capacity - counted(admitted, quota, window);
    let ends_in = (window + 1) * quota.window - now;
    let wait = if left >= cost { 0 } else { ends_in };
    (whole(left), ends_in, whole(wait))
}

fn look_sliding(admitted: &Admitted, quota: &Quota, cost: i128, now: i128) -> (Exact, i128, Exact) {
    let (length, window) = (quota.window, now / quota.window);
    let current = counted(admitted, quota, window);
    let previous = counted(admitted, quota, window - 1);
    let into = now - window * length;
    let estimate = whole(previous) * fraction(length - into, length) + whole(current);
    let reset = match (previous, current) {
        (0, 0) => 0,
        (_, 0) => length - into,
        _ => 2 * length - into,
    };
    let left = whole(quota.capacity) - estimate;
    if left >= whole(cost) {
        return (left, reset, whole(0));
    }
    // The previous window's count fades during this window, and this window's count during the next.
    let room_now = quota.capacity - cost - current;
    let room_next = quota.capacity - cost;
    let fits_at = if room_now >= 0 && previous > room_now {
        faded_to(previous, room_now, length)
    } else {
        whole(length) + faded_to(current, room_next, length)
    };
    (left, reset, fits_at - whole(into))
}

/// How far into a window the previous window's count has faded to `room`.
fn faded_to(count: i128, room: i128, length: i128) -> Exact {
    if count <= room {
        return whole(0);
    }
    whole(length) * fraction(count - room, count)
}

fn look_log(admitted: &Admitted, quota: &Quota, cost: i128, now: i128) -> (Exact, i128, Exact) {
    let left_at = |instant: i128| {
        let counts = admitted.iter().filter(|(at, _)| at + quota.window > instant);
        quota.capacity - counts.map(|(_, cost)| cost).sum::<i128>()
    };
    let expiries: Vec<i128> =
        admitted.iter().map(|(at, _)| at + quota.window).filter(|expiry| *expiry > now).collect();
    let reset = expiries.iter().max().map_or(0, |last| last - now);
    let fits_at = std::iter::once(now).chain(expiries).find(|instant| left_at(*instant) >= cost);
    (whole(left_at(now)), reset, whole(fits_at.unwrap_or(now) - now))
}

#[cfg(test)]
mod tests {
    use super::super::exact::{SECOND, Wait};
    use super::super::meter::{self, Usage};
    use super::*;

    fn ten_in_ten_seconds(algorithm: Algorithm) -> Quota {
        Quota { algorithm, rate: fraction(1, SECOND), window: 10 * SECOND, capacity: 10, overridden: None }
    }

    #[test]
    fn a_previous_window_fades() {
        let quota = ten_in_ten_seconds(Algorithm::SlidingWindow);
        let used = Usage::Admitted(vec![(0, 10)]);
        let reading = meter::look(Some(&used), &quota, 4, 12 * SECOND);
        assert_eq!((reading.admits, reading.remaining, reading.reset), (false, 2, 8 * SECOND));
        assert_eq!(reading.wait, Wait::For(2 * SECOND));
        assert!(meter::look(Some(&used), &quota, 4, 14 * SECOND).admits);
        let reading = meter::look(Some(&used), &quota, 4, 5 * SECOND);
        assert_eq!((reading.reset, reading.wait), (15 * SECOND, Wait::For(9 * SECOND)));
        let whole_limit = meter::look(Some(&used), &quota, 10, 5 * SECOND);
        assert_eq!(whole_limit.wait, Wait::For(15 * SECOND));
    }

    #[test]
    fn a_log_forgets_each_request_a_window_later() {
        let quota = ten_in_ten_seconds(Algorithm::SlidingLog);
        let used = Usage::Admitted(vec![(0, 4), (3 * SECOND, 6)]);
        let reading = meter::look(Some(&used), &quota, 5, 9 * SECOND);
        assert_eq!((reading.remaining, reading.reset), (0, 4 * SECOND));
        assert_eq!(reading.wait, Wait::For(4 * SECOND));
        assert!(meter::look(Some(&used), &quota, 4, 10 * SECOND).admits);
    }

    #[test]
    fn a_fixed_window_starts_anew() {
        let quota = ten_in_ten_seconds(Algorithm::FixedWindow);
        let used = Usage::Admitted(vec![(9 * SECOND, 10)]);
        assert_eq!(meter::look(Some(&used), &quota, 1, 9 * SECOND).wait, Wait::For(SECOND));
        assert_eq!(meter::look(Some(&used), &quota, 0, 10 * SECOND).remaining, 10);
        assert_eq!(meter::look(Some(&used), &quota, 11, 9 * SECOND).wait, Wait::Never);
    }
}
