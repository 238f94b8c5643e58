//! A bucket and a keyed limiter in use: `cargo run --release --example quickstart`.

use tidegate::{
    Bucket, Clock, Cost, Keyed, LimitDecision, ManualClock, MemoryOptions, MonotonicClock, Nanos, Outcome,
    Quota,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    one_bucket()?;
    a_bucket_for_each()?;
    at_full_speed()
}

/// The clock is moved by hand, so that this takes no time.
fn one_bucket() -> Result<(), Box<dyn std::error::Error>> {
    println!("One bucket: 2 a second, bursts of 5.\n");
    let clock = ManualClock::default();
    let bucket = Bucket::with_clock(Quota::per_second(2)?.with_capacity(5)?, clock.clone());
    let start = clock.now();
    for (at, cost) in [(0, 1), (0, 3), (0, 2), (499, 2), (500, 2), (2_000, 6), (2_500, 4)] {
        clock.set(start.saturating_add(Nanos::from_millis(at)));
        show(&format!("{at:>5} ms  take {cost}"), 5, &bucket.take(Cost::new(cost)));
    }
    Ok(())
}

fn a_bucket_for_each() -> Result<(), Box<dyn std::error::Error>> {
    println!("\nA bucket for each user: 3 a minute. A denial charges nobody.\n");
    let clock = ManualClock::default();
    let options = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
    let per_user: Keyed<str, _> = Keyed::with(Quota::per_minute(3)?, options, clock.clone())?;
    for user in ["alice", "alice", "bob", "alice", "alice"] {
        show(&format!("{user:>8}  take 1"), 3, &per_user.take(user, Cost::ONE));
    }
    clock.advance(Nanos::from_secs(20));
    show("alice, 20 s on  ", 3, &per_user.take("alice", Cost::ONE));
    Ok(())
}

fn at_full_speed() -> Result<(), Box<dyn std::error::Error>> {
    const DECISIONS: u64 = 5_000_000;
    let clock = MonotonicClock::new();
    let per_user: Keyed<u64> = Keyed::new(Quota::per_second(1)?)?;
    let start = clock.now();
    // 200,000 keys in a scattered order.
    let admitted =
        (0..DECISIONS).filter(|i| per_user.take(&(i * 7_919 % 200_000), Cost::ONE).is_allowed()).count();
    let each = clock.now().saturating_sub(start).get() / DECISIONS;
    println!("\n{DECISIONS} decisions over 200000 keys on one thread: {each} ns each, {admitted} admitted.");
    Ok(())
}

fn show(what: &str, capacity: u32, decision: &LimitDecision) {
    let left = decision.remaining as usize;
    let level = "●".repeat(left) + &"○".repeat(capacity as usize - left);
    let answer = match decision.outcome {
        Outcome::Allowed => format!("admitted, full again in {}", decision.reset_after),
        Outcome::Denied { retry_after } => format!("denied, retry in {retry_after}"),
        Outcome::Never => format!("never: more than the bucket holds ({})", decision.limit),
    };
    println!("  {what}  {level}  {answer}");
}
