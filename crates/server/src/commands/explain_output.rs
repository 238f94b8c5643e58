//! The output of `tidegate explain` as text.

use std::fmt::Write;

use tidegate::Nanos;
use tidegate::engine::{
    Decision, ExplainedBucket, ExplainedDetector, ExplainedLimit, ExplainedTenant, Explanation,
};
use tidegate_policy::Strategy;

use super::bucket_output::override_line;
use super::tenant_output;
use crate::commands::terminal::paint::{Paint, Tone, printable};

/// The explanation as text. `after` is the number of equal requests that were made before.
pub(super) fn text(explanation: &Explanation, after: u32, paint: Paint) -> String {
    let mut out = String::new();
    let decision = &explanation.decision;
    let (is_admitted, by_limits) = (decision.is_allowed(), is_by_limits(decision));
    Text { out: &mut out, paint, is_admitted, by_limits }
        .all(explanation, after)
        .expect("writing to memory does not fail");
    out
}

struct Text<'a> {
    out: &'a mut String,
    paint: Paint,
    /// A refused request takes no tokens from any limit.
    is_admitted: bool,
    /// Neither does one that was decided before the limits, such as one on the allow list.
    by_limits: bool,
}

/// Did limits decide the request, rather than what comes before them?
pub(super) fn is_by_limits(decision: &Decision) -> bool {
    decision.limits().len() > 0
}

impl Text<'_> {
    fn all(&mut self, explanation: &Explanation, after: u32) -> std::fmt::Result {
        self.verdict(&explanation.decision, after)?;
        self.request(explanation)?;
        self.gate(explanation)?;
        if !explanation.detectors.is_empty() {
            self.heading("burst detectors")?;
            for detector in &explanation.detectors {
                self.detector(detector)?;
            }
        }
        if !explanation.limits.is_empty() {
            self.heading("limits")?;
            for limit in &explanation.limits {
                self.limit(limit)?;
            }
        }
        if let Some(id) = &explanation.unknown_tenant {
            self.heading("tenants")?;
            writeln!(self.out, "  the policy has no tenant `{}`", printable(id))?;
        }
        if !explanation.tenants.is_empty() {
            self.heading("tenants, from the root down")?;
            if let Some(ancestor) = &explanation.contended {
                writeln!(
                    self.out,
                    "  denied by the limit of the ancestor `{ancestor}`, not by the tenant's own"
                )?;
            }
            for tenant in &explanation.tenants {
                self.tenant(tenant)?;
            }
        }
        Ok(())
    }

    fn heading(&mut self, text: &str) -> std::fmt::Result {
        writeln!(self.out, "\n{}", self.paint.tone(Tone::Strong, text))
    }

    fn verdict(&mut self, decision: &Decision, after: u32) -> std::fmt::Result {
        let word = match decision.is_allowed() {
            true if decision.queued().is_some() => self.paint.tone(Tone::Warn, "ALLOWED, queued"),
            true if decision.degraded().is_some() => self.paint.tone(Tone::Warn, "ALLOWED, degraded"),
            true => self.paint.tone(Tone::Good, "ALLOWED"),
            false => self.paint.tone(Tone::Bad, "DENIED"),
        };
        write!(self.out, "{word}")?;
        if let Some(rule) = decision.violated_rule() {
            write!(self.out, " by {}", self.paint.tone(Tone::Name, rule))?;
        }
        if let Some(tag) = decision.degraded() {
            write!(self.out, " as `{tag}`")?;
        }
        write!(self.out, ": {}", decision.reason())?;
        if let Some(wait) = decision.queued().map(Nanos::from) {
            write!(self.out, "; it waits {} ms in the queue", wait.as_millis_ceil())?;
        }
        match (decision.is_allowed(), decision.wait(), decision.retry_after_secs()) {
            (false, Some(wait), Some(secs)) => {
                write!(self.out, "; retry after {} ms (Retry-After: {secs})", wait.as_millis_ceil())?;
            }
            (false, ..) => write!(self.out, "; retrying will not help")?,
            (true, ..) => {}
        }
        let shadow: Vec<&str> = decision.shadow_denied().collect();
        if !shadow.is_empty() {
            write!(self.out, "; shadow limits would deny: {}", shadow.join(", "))?;
        }
        writeln!(self.out)?;
        if let Some(speaker) = decision.tightest() {
            let (name, state) = (&speaker.rule.name, speaker.decision);
            let reset = state.reset_after.as_millis_ceil();
            let line = format!(
                "the tightest limit is {name}: limit {}, remaining {}, reset after {reset} ms",
                state.limit, state.remaining
            );
            writeln!(self.out, "{}", self.paint.tone(Tone::Faint, line))?;
        }
        match after {
            0 => Ok(()),
            1 => writeln!(self.out, "after 1 equal request at the same instant"),
            _ => writeln!(self.out, "after {after} equal requests at the same instant"),
        }
    }

    fn request(&mut self, explanation: &Explanation) -> std::fmt::Result {
        self.heading("request")?;
        writeln!(self.out, "  path   {}", printable(explanation.path.as_deref().unwrap_or("none")))?;
        match &explanation.route {
            Some((route, Some(cost))) => writeln!(self.out, "  route  {route}, which costs {cost}")?,
            Some((route, None)) => writeln!(self.out, "  route  {route}")?,
            None => {}
        }
        if let Some(upstream) = &explanation.upstream {
            writeln!(self.out, "  upstream  {upstream}")?;
        }
        if let Some(priority) = explanation.priority {
            writeln!(self.out, "  priority  {priority}, where it has to wait")?;
        }
        writeln!(self.out, "  cost   the cost set by each limit, times {}", explanation.cost)
    }

    fn gate(&mut self, explanation: &Explanation) -> std::fmt::Result {
        let Some(gate) = &explanation.gate else { return Ok(()) };
        self.heading("decided before any limit")?;
        let reason = gate.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        if gate.is_kill_switch() {
            writeln!(self.out, "  the kill switch is on, so every request is admitted{reason}")?;
            return writeln!(self.out, "  takes nothing from any limit");
        }
        let conditions = gate.conditions.join(", ");
        let entry = gate.line.map_or_else(|| "a live entry".to_owned(), |line| format!("line {line}"));
        writeln!(self.out, "  matches {entry} in `{}`: {conditions}{reason}", gate.list)?;
        writeln!(self.out, "  takes nothing from any limit")
    }

    fn detector(&mut self, detector: &ExplainedDetector) -> std::fmt::Result {
        let (tone, mark) = match (&detector.missing, detector.blocked_for) {
            (Some(_), _) => (Tone::Faint, "·"),
            (None, Some(_)) => (Tone::Bad, "✗"),
            (None, None) => (Tone::Good, "✓"),
        };
        let name = self.paint.tone(Tone::Name, &detector.name);
        let ExplainedDetector { threshold, window, penalty, .. } = detector;
        let about = format!(
            "more than {threshold} in {window}: a warning for {penalty}, then a block for twice that"
        );
        writeln!(
            self.out,
            "  {} {name}  {}",
            self.paint.tone(tone, mark),
            self.paint.tone(Tone::Faint, about)
        )?;
        match (&detector.missing, detector.blocked_for) {
            (Some(missing), _) => {
                writeln!(self.out, "      does not watch this request: it has no {missing}")
            }
            (None, Some(left)) => {
                writeln!(
                    self.out,
                    "      watches {}; blocked for another {} ms",
                    parts(&detector.key),
                    left.as_millis_ceil()
                )
            }
            (None, None) => writeln!(self.out, "      watches {}; not blocked", parts(&detector.key)),
        }
    }

    fn limit(&mut self, limit: &ExplainedLimit) -> std::fmt::Result {
        let mark = match limit.denies_missing {
            true => self.paint.tone(Tone::Bad, "✗").to_string(),
            false => self.mark(limit.bucket.as_ref()),
        };
        let name = self.paint.tone(Tone::Name, &limit.name);
        let about = self.paint.tone(Tone::Faint, format!("line {}, {}", limit.line, limit.tier));
        writeln!(self.out, "  {mark} {name}  {about}")?;
        if let (true, Some(why)) = (limit.denies_missing, &limit.why_not) {
            return writeln!(self.out, "      {}", printable(why));
        }
        if let Some(why_not) = &limit.why_not {
            return writeln!(self.out, "      does not apply: {}", printable(why_not));
        }
        let matched = match (limit.conditions.as_slice(), &limit.group) {
            ([], None) => "applies to every request".to_owned(),
            ([], Some(group)) => format!("applies: first match in the group `{group}`"),
            (conditions, None) => format!("applies: {}", conditions.join(", ")),
            (conditions, Some(group)) => {
                format!("applies, first match in the group `{group}`: {}", conditions.join(", "))
            }
        };
        let unless = match limit.unless.as_slice() {
            [] => String::new(),
            conditions => format!("; not for {}", conditions.join(", ")),
        };
        writeln!(self.out, "      {matched}{unless}")?;
        limit.bucket.as_ref().map_or(Ok(()), |bucket| self.bucket(bucket, "one bucket for all requests"))
    }

    /// The mark before a limit: admits, refuses, exceeded without refusing, or does not apply or decide.
    fn mark(&self, bucket: Option<&ExplainedBucket>) -> String {
        let (tone, mark) = match bucket {
            None => (Tone::Faint, "·"),
            Some(_) if !self.by_limits => (Tone::Faint, "·"),
            Some(bucket) if bucket.answer.is_allowed() => (Tone::Good, "✓"),
            Some(bucket) if bucket.shadow || matches!(bucket.strategy, Strategy::Degrade { .. }) => {
                (Tone::Warn, "!")
            }
            Some(_) => (Tone::Bad, "✗"),
        };
        self.paint.tone(tone, mark).to_string()
    }

    /// `whole` describes a bucket that has no key.
    fn bucket(&mut self, bucket: &ExplainedBucket, whole: &str) -> std::fmt::Result {
        let trust = bucket.trust.map(|trust| format!(", scaled by trust 0.{trust:02}"));
        let trust = trust.map(|text| text.replace("0.100", "1")).unwrap_or_default();
        writeln!(self.out, "      {}{trust}", bucket.limit)?;
        if let Some(overridden) = &bucket.overridden {
            writeln!(self.out, "      {}", printable(&override_line(overridden)))?;
        }
        let (before, answer, cost) = (&bucket.before, &bucket.answer, bucket.cost);
        let key = match bucket.key.as_slice() {
            [] => whole.to_owned(),
            _ if bucket.is_shared => {
                let names: Vec<&str> = bucket.key.iter().map(|(name, _)| &**name).collect();
                format!("the bucket of all requests without {} (`missing: shared`)", names.join(" and "))
            }
            key => parts(key),
        };
        let from = if bucket.cost_from == cost.to_string() {
            String::new()
        } else {
            format!(" ({})", bucket.cost_from)
        };
        writeln!(self.out, "      {key}; costs {cost}{from}")?;
        let holds = format!("holds {} of {}", before.remaining, before.limit);
        match answer.wait() {
            _ if !self.by_limits => return writeln!(self.out, "      {holds}; nothing is taken"),
            Some(_) if answer.is_allowed() && !self.is_admitted => {
                writeln!(self.out, "      {holds}, enough for {cost}")?;
            }
            Some(_) if answer.is_allowed() => {
                let left = before.remaining.saturating_sub(cost);
                writeln!(self.out, "      {holds}, takes {cost}, leaves {left}")?;
            }
            Some(wait) => {
                let short = cost.saturating_sub(before.remaining);
                let wait = wait.as_millis_ceil();
                writeln!(self.out, "      {holds}, needs {cost}: {short} missing, available in {wait} ms")?;
            }
            None => writeln!(self.out, "      {holds}, can never hold {cost}")?,
        }
        let note = match (&bucket.strategy, answer.is_allowed()) {
            _ if bucket.shadow => "shadow mode: this limit denies nothing",
            (Strategy::Degrade { .. }, false) => {
                "strategy degrade: this limit marks the request instead of refusing it"
            }
            (Strategy::Queue { .. }, false) => "strategy queue: a request that may wait is admitted later",
            _ => return Ok(()),
        };
        writeln!(self.out, "      {}", self.paint.tone(Tone::Warn, note))
    }

    fn tenant(&mut self, tenant: &ExplainedTenant) -> std::fmt::Result {
        let mark = self.mark(tenant.bucket.as_ref());
        let name = self.paint.tone(Tone::Name, &tenant.name);
        let about = self.paint.tone(Tone::Faint, tenant_output::about(tenant));
        writeln!(self.out, "  {mark} {name}  {about}")?;
        tenant_output::numbers(self.out, tenant)?;
        tenant.bucket.as_ref().map_or(Ok(()), |bucket| self.bucket(bucket, "the tenant's bucket"))
    }
}

/// `user = 42, route = /api`
fn parts(key: &[(String, String)]) -> String {
    let parts: Vec<String> = key.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    parts.join(", ")
}
