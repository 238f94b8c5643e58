//! The summary of a run, as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use tidegate::engine::{BusyKey, Decision};
use tidegate::{Clock, Memory, Nanos};

/// How many of the busiest keys are listed.
const BUSIEST: usize = 5;

/// The summary of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Requests decided.
    pub requests: u64,
    /// Admitted requests.
    pub allowed: u64,
    /// Admitted requests that waited in a queue.
    pub queued: u64,
    /// Admitted requests that were marked as degraded.
    pub degraded: u64,
    /// Denials by what denied them: a limit, a burst detector, `block`.
    pub denied_by: BTreeMap<String, u64>,
    /// Denials by reason.
    pub denied_for: BTreeMap<&'static str, u64>,
    /// Requests that shadow limits would have denied.
    pub shadow_denied_by: BTreeMap<String, u64>,
    /// The longest wait in a queue, or until a retry.
    pub worst_wait: Nanos,
    /// The keys that took the most.
    pub busiest: Vec<BusyKey>,
    /// The keys that were denied the most.
    pub most_denied: Vec<BusyKey>,
}

impl Summary {
    pub(super) fn count(&mut self, decision: &Decision) {
        self.requests += 1;
        self.allowed += u64::from(decision.is_allowed());
        self.queued += u64::from(decision.queued().is_some());
        self.degraded += u64::from(decision.degraded().is_some());
        for name in decision.shadow_denied() {
            add(&mut self.shadow_denied_by, name);
        }
        let wait = decision.queued().map(Nanos::from).or(decision.wait()).unwrap_or_default();
        self.worst_wait = self.worst_wait.max(wait);
        if !decision.is_allowed() {
            add(&mut self.denied_by, decision.violated_rule().unwrap_or("(no rule)"));
            *self.denied_for.entry(decision.reason().as_str()).or_default() += 1;
        }
    }

    pub(super) fn finish<C: Clock>(&mut self, limiter: &tidegate::engine::Limiter<Memory<C>, C>) {
        self.busiest = limiter.top_consumers(BUSIEST).keys;
        self.most_denied = limiter.top_denied(BUSIEST).keys;
    }

    /// A few lines of text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out).expect("writing to memory does not fail");
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let denied = self.requests - self.allowed;
        writeln!(out, "requests    {}", self.requests)?;
        writeln!(out, "allowed     {}{}", self.allowed, share(self.allowed, self.requests))?;
        if self.queued > 0 {
            writeln!(out, "  queued    {}", self.queued)?;
        }
        if self.degraded > 0 {
            writeln!(out, "  degraded  {}", self.degraded)?;
        }
        writeln!(out, "denied      {denied}{}", share(denied, self.requests))?;
        by_count(out, "  by", &self.denied_by)?;
        let reasons: BTreeMap<String, u64> =
            self.denied_for.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
        by_count(out, "  for", &reasons)?;
        by_count(out, "shadow      would deny: by", &self.shadow_denied_by)?;
        writeln!(out, "worst wait  {} ms", self.worst_wait.as_millis_ceil())?;
        keys(out, "busiest keys (tokens taken)", &self.busiest)?;
        keys(out, "most denied keys (requests)", &self.most_denied)
    }
}

fn add(counts: &mut BTreeMap<String, u64>, name: &str) {
    match counts.get_mut(name) {
        Some(count) => *count += 1,
        None => _ = counts.insert(name.to_owned(), 1),
    }
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::new();
    }
    let permille = u128::from(part) * 1_000 / u128::from(whole);
    format!("  ({}.{} %)", permille / 10, permille % 10)
}

/// Writes counts, the largest first.
fn by_count(out: &mut String, label: &str, counts: &BTreeMap<String, u64>) -> std::fmt::Result {
    let mut counts: Vec<(&String, &u64)> = counts.iter().collect();
    counts.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    for (name, count) in counts.iter().take(20) {
        writeln!(out, "{label} {name}: {count}")?;
    }
    match counts.len().saturating_sub(20) {
        0 => Ok(()),
        more => writeln!(out, "{label} {more} others"),
    }
}

fn keys(out: &mut String, label: &str, keys: &[BusyKey]) -> std::fmt::Result {
    if keys.is_empty() {
        return Ok(());
    }
    writeln!(out, "{label}")?;
    for busy in keys {
        let key = if busy.key.is_empty() { "(one for all)" } else { &busy.key };
        let count = match busy.error {
            0 => busy.count.to_string(),
            error => format!("{} to {}", busy.count - error, busy.count),
        };
        writeln!(out, "  {count:<10} {}  {key}", busy.limit)?;
    }
    Ok(())
}
