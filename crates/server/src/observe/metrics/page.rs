//! The page `/metrics`: collects the values of every metric in the table, in its order.

use std::collections::HashMap;

use tidegate::Clock;
use tidegate::engine::counting::counters::RuleOutcome;
use tidegate::engine::trust::TrustBook;
use tidegate::engine::{Credential, MissingCount, Reason, RouteCount, RouteOutcome};
use tidegate::measure::DurationHistogram;
use tidegate_redis::ErrorCounts;

use super::Count;
use super::exposition::{Exposition, FixedPoint};
use super::families::{self as family, MetricFamily};
use super::limit_series::{LimitSeries, series_of};
use super::process::Process;
use crate::control::ControlPlane;
use crate::control::candidates::CANDIDATE_PREFIX;
use crate::identity::{KeyStatus, Rejection};
use crate::node::Node;
use crate::node::lifecycle::ReloadedPart;
use crate::observe::events::EventFate;
use crate::observe::readiness::Readiness;
use crate::observe::traces::{Protocol, SpanOutcome};
use crate::serve::clock_watch::seconds;
use crate::settings::Listener;

/// All metrics of a node, as text. It reads the counters of every limit, which takes some milliseconds for a large
/// policy, so do not call it on a worker thread.
pub fn metrics_page(node: &Node) -> String {
    let mut page = Exposition::default();
    let counted = node.limiter().counted_limits();
    let limit_count = counted.limits.len();
    let limits = node.metrics().limit_series.choose(counted, node.settings().tenant_metrics);
    state(&mut page, node);
    decisions(&mut page, node, &limits);
    durations(&mut page, node, &limits);
    engine(&mut page, node);
    store(&mut page, node, &limits);
    policy(&mut page, node, limit_count);
    connections(&mut page, node);
    traces(&mut page, node);
    events(&mut page, node);
    process(&mut page, Process::read());
    page.finish()
}

fn state(page: &mut Exposition, node: &Node) {
    let readiness = Readiness::of(node);
    let about = [env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH];
    page.family(&family::BUILD_INFO).sample(&about, 1);
    page.family(&family::READY).sample(&[], u8::from(readiness.is_ready()));
    page.family(&family::DEGRADED).sample(&[], u8::from(!readiness.degraded.is_empty()));
    page.family(&family::KILL_SWITCH).sample(&[], u8::from(node.limiter().kill_switch()));
    let now = node.clock().now();
    let ahead = node.clock().wall_at(now).get().wrapping_sub(now.get()) as i64;
    page.family(&family::CLOCK_OFFSET).sample(&[], seconds(ahead));
    page.family(&family::CLOCK_MOVES).sample(&[], node.metrics().get(Count::ClockMoves));
}

fn decisions(page: &mut Exposition, node: &Node, limits: &[LimitSeries]) {
    let mut samples = page.family(&family::DECISIONS);
    for limit in limits {
        for (outcome, count) in RuleOutcome::ALL.iter().zip(limit.outcomes) {
            samples.sample(&[&limit.name, outcome.as_str()], count);
        }
    }
    let mut samples = page.family(&family::DECISIONS_BY_REASON);
    for reason in Reason::ALL {
        samples.sample(&[reason.as_str()], node.limiter().decided(reason));
    }
    let mut samples = page.family(&family::NO_LIMIT);
    for MissingCount { missing, count } in node.limiter().missing_counts() {
        samples.sample(&[&missing], count);
    }
    let mut samples = page.family(&family::ROUTE_DECISIONS);
    for RouteCount { route, outcomes } in node.limiter().route_counts() {
        for (outcome, count) in RouteOutcome::ALL.iter().zip(outcomes) {
            samples.sample(&[&route, outcome.as_str()], count);
        }
    }
    let mut samples = page.family(&family::THROTTLE_DECISIONS);
    let throttled = node.limiter().ad_hoc_counters();
    for outcome in [RuleOutcome::Allowed, RuleOutcome::Denied] {
        samples.sample(&[outcome.as_str()], throttled.get(outcome));
    }
    let mut samples = page.family(&family::REQUESTS);
    for protocol in Protocol::ALL {
        samples.sample(&[protocol.as_str()], node.metrics().get(Count::Requests(protocol)));
    }
}

fn histogram(page: &mut Exposition, family: &'static MetricFamily, histogram: &DurationHistogram) {
    let seen = histogram.snapshot();
    let cumulative = seen.cumulative().map(|(bound, so_far)| (FixedPoint::seconds(bound), so_far));
    page.family(family).histogram(&[], cumulative, seen.count(), FixedPoint::seconds(seen.sum()));
}

fn durations(page: &mut Exposition, node: &Node, limits: &[LimitSeries]) {
    histogram(page, &family::DECISION_DURATION, &node.metrics().durations);
    let mut samples = page.family(&family::TOKENS_REMAINING_RATIO);
    for limit in limits {
        let shares = running(limit.remaining.map(|(percent, count)| (u64::from(percent), count)));
        let sum = FixedPoint::millionths(limit.remaining_sum_millionths);
        samples.histogram(&[&limit.name], shares, limit.remaining_count(), sum);
    }
    histogram(page, &family::QUEUE_WAIT, node.limiter().queue_waits());
    histogram(page, &family::RETRY_WAIT, node.limiter().retry_waits());
}

fn engine(page: &mut Exposition, node: &Node) {
    page.family(&family::UNKNOWN_TENANTS).sample(&[], node.limiter().unknown_tenants());
    let mut contention = page.family(&family::TENANT_CONTENTION);
    for (depth, count) in node.limiter().tenant_contention().into_iter().enumerate() {
        contention.sample(&[&depth.to_string()], count);
    }
    let (warned, blocked) = node.limiter().burst_actions();
    page.family(&family::BURST_ACTIONS).sample(&["warned"], warned).sample(&["blocked"], blocked);
    page.family(&family::BURSTS_UNTRACKED).sample(&[], node.limiter().untracked_bursts());
    let unlisted = node.limiter().unlisted_burst_penalties()
        + node.shared().map_or(0, |shared| shared.store.unlisted_penalties());
    page.family(&family::PENALTIES_UNLISTED).sample(&[], unlisted);
    let trust = node.limiter().trust();
    let tenths = trust.buckets();
    let (count, sum) = (tenths.iter().sum(), FixedPoint::hundredths(trust.sum_hundredths()));
    let shares = running((0..).step_by(10).zip(tenths));
    page.family(&family::TRUST_SCORE).histogram(&[], shares, count, sum);
    let (facts, violations) = node.limiter().trust_book().map_or((0, 0), TrustBook::forgotten);
    page.family(&family::TRUST_FORGOTTEN).sample(&["facts"], facts).sample(&["violations"], violations);
}

/// Turns counts per bucket into cumulative counts; the bounds are in hundredths.
fn running(buckets: impl IntoIterator<Item = (u64, u64)>) -> impl Iterator<Item = (FixedPoint, u64)> {
    buckets.into_iter().scan(0_u64, |so_far, (hundredths, count)| {
        *so_far += count;
        Some((FixedPoint::hundredths(hundredths), *so_far))
    })
}

fn store(page: &mut Exposition, node: &Node, limits: &[LimitSeries]) {
    let (policy, ad_hoc) = (node.memory(), node.ad_hoc_memory());
    page.family(&family::KEYS).sample(&[], policy.keys + ad_hoc.keys);
    page.family(&family::KEY_SLOTS).sample(&[], policy.slots + ad_hoc.slots);
    page.family(&family::KEYS_EVICTED).sample(&[], policy.evictions + ad_hoc.evictions);
    page.family(&family::KEYS_OVERFLOWED).sample(&[], policy.overflows + ad_hoc.overflows);
    page.family(&family::STORE_BYTES).sample(&[], policy.bytes + ad_hoc.bytes);
    shared(page, node, limits);
}

/// Metrics of the shared store; without one, they have the values of a store that never fails.
fn shared(page: &mut Exposition, node: &Node, limits: &[LimitSeries]) {
    let shared = node.shared();
    let up = shared.is_none_or(|shared| shared.health().up);
    page.family(&family::STORE_UP).sample(&[], u8::from(up));
    page.family(&family::STORE_CALLS).sample(&[], shared.map_or(0, |shared| shared.store.calls()));
    let none = tidegate_redis::new_call_times();
    histogram(page, &family::STORE_CALL_DURATION, shared.map_or(&none, |shared| shared.store.call_times()));
    let mut samples = page.family(&family::STORE_ERRORS);
    let errors = shared.map_or_else(ErrorCounts::default, |shared| shared.store.errors());
    errors.by_kind().into_iter().for_each(|(kind, count)| _ = samples.sample(&[kind], count));
    let fallbacks = node.limiter().store_failures();
    let mut samples = page.family(&family::STORE_FALLBACKS);
    for (choice, count) in
        [("local", fallbacks.local), ("open", fallbacks.open), ("closed", fallbacks.closed)]
    {
        samples.sample(&[choice], count);
    }
    let watch = shared.and_then(|shared| shared.store.link().master_watch());
    page.family(&family::STORE_MASTER_MOVES).sample(&[], watch.as_ref().map_or(0, |watch| watch.moves));
    let silent = watch.map_or(0, |watch| watch.sentinels - watch.answering);
    page.family(&family::STORE_SENTINELS_SILENT).sample(&[], silent as u64);
    let nodes = shared.map_or(node.settings().nodes, |shared| shared.store.health().nodes.max(1));
    page.family(&family::NODES).sample(&[], nodes);
    let mut bounds = shared.map(|shared| shared.store.overshoot_bounds()).unwrap_or_default();
    // Nobody gets tokens of a candidate.
    bounds.retain(|(name, _)| !name.starts_with(CANDIDATE_PREFIX));
    let mut samples = page.family(&family::LEASE_OVERSHOOT_BOUND);
    overshoot(limits, &bounds, node.settings().tenant_metrics)
        .for_each(|(name, bound)| _ = samples.sample(&[name], bound));
}

/// The overshoot bound of each series. One of several limits gets the largest of their bounds, because bounds of different
/// limits do not add up.
fn overshoot<'a>(
    limits: &'a [LimitSeries],
    bounds: &[(String, u64)],
    by_tenant: bool,
) -> impl Iterator<Item = (&'a str, u64)> + use<'a> {
    let series: HashMap<&str, usize> =
        (0..).zip(limits).map(|(index, limit)| (&*limit.name, index)).collect();
    let mut found = vec![0; limits.len()];
    for (state_name, bound) in bounds {
        // The store keeps a limit's state under its name and the fields of its key.
        let name = state_name.split('\u{1f}').next().unwrap_or(state_name);
        if let Some(index) = series_of(name, by_tenant).find_map(|name| series.get(name)) {
            found[*index] = found[*index].max(*bound);
        }
    }
    limits.iter().map(|limit| limit.name.as_str()).zip(found)
}

fn policy(page: &mut Exposition, node: &Node, limit_count: usize) {
    let count = |count| node.metrics().get(count);
    page.family(&family::POLICY_VERSION).sample(&[], node.limiter().version());
    page.family(&family::POLICY_LIMITS).sample(&[], limit_count);
    page.family(&family::POLICY_RELOADS).sample(&[], count(Count::PolicyReloads));
    page.family(&family::POLICY_RELOAD_FAILURES)
        .sample(&[], count(Count::ReloadFailures(ReloadedPart::Policy)));
    page.family(&family::WAKE_UPS).sample(&[], count(Count::WakeUps));
    let mut samples = page.family(&family::FILE_RELOAD_FAILURES);
    for file in [ReloadedPart::Tls, ReloadedPart::Jwks, ReloadedPart::ApiKeys, ReloadedPart::Trust] {
        samples.sample(&[file.as_str()], count(Count::ReloadFailures(file)));
    }
}

fn connections(page: &mut Exposition, node: &Node) {
    let mut by_listener = |family, value: &dyn Fn(Listener) -> u64| {
        let mut samples = page.family(family);
        Listener::ALL.iter().for_each(|listener| _ = samples.sample(&[listener.name()], value(*listener)));
    };
    let metrics = &node.metrics();
    by_listener(&family::CONNECTIONS, &|listener| metrics.open_connections(listener));
    by_listener(&family::CONNECTIONS_OPENED, &|listener| metrics.get(Count::Opened(listener)));
    by_listener(&family::CONNECTIONS_REFUSED, &|listener| metrics.get(Count::Refused(listener)));
    by_listener(&family::PROTOCOL_ERRORS, &|listener| metrics.get(Count::ProtocolErrors(listener)));
    let mut samples = page.family(&family::CREDENTIALS);
    for credential in Credential::ALL {
        samples.sample(&[credential.as_str()], metrics.get(Count::Credentials(credential)));
    }
    let mut samples = page.family(&family::TOKENS_REJECTED);
    for why in Rejection::ALL {
        samples.sample(&[why.as_str()], metrics.get(Count::TokensRejected(why)));
    }
    let mut samples = page.family(&family::API_KEYS);
    for status in KeyStatus::ALL {
        samples.sample(&[status.as_str()], metrics.get(Count::ApiKeys(status)));
    }
    page.family(&family::IDENTITY_FAULTS).sample(&[], metrics.get(Count::IdentityFaults));
    page.family(&family::PANICS).sample(&[], metrics.get(Count::Panics));
}

fn traces(page: &mut Exposition, node: &Node) {
    let mut samples = page.family(&family::TRACE_SPANS);
    for outcome in SpanOutcome::ALL {
        samples.sample(&[outcome.as_str()], node.traces().spans(outcome));
    }
}

fn events(page: &mut Exposition, node: &Node) {
    for (family, fates) in [
        (&family::EVENTS_WRITTEN, node.events().written()),
        (&family::EVENTS_DROPPED, node.events().dropped()),
    ] {
        let mut samples = page.family(family);
        for EventFate { place, count } in fates {
            samples.sample(&[place], count);
        }
    }
    page.family(&family::EVENTS_MERGED).sample(&[], node.events().merged());
    let mut waiting = page.family(&family::RECORDS_WAITING);
    if let Some(records) = node.control().and_then(ControlPlane::records) {
        waiting.sample(&[], records.waiting() as u64);
    }
}

/// A value that the operating system does not provide gets no sample, but its metric is still listed.
fn process(page: &mut Exposition, process: Process) {
    let mut write = |family, value: Option<String>| {
        let mut samples = page.family(family);
        value.into_iter().for_each(|value| _ = samples.sample(&[], value));
    };
    let seconds = |span| FixedPoint::seconds(span).to_string();
    let number = |number: u64| number.to_string();
    write(&family::PROCESS_CPU, process.cpu.map(seconds));
    write(&family::PROCESS_MEMORY, process.resident_bytes.map(number));
    write(&family::PROCESS_VIRTUAL_MEMORY, process.virtual_bytes.map(number));
    write(&family::PROCESS_FDS, process.open_fds.map(number));
    write(&family::PROCESS_FDS_MAX, process.max_fds.map(number));
    write(&family::PROCESS_START, process.started.map(seconds));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::settings::Settings;
    use tidegate::engine::Policy;

    #[test]
    fn every_metric_of_the_table_is_written_once_and_in_order() {
        let policy = Policy::parse("version: 1\nlimits: []\n").expect("it is valid");
        let settings = Settings { max_keys: 100, ..Settings::default() };
        let identity = Identity::new(&settings).expect("there is nothing to read");
        let node = Node::new(settings, policy.into(), identity).expect("it has no limits");
        let page = metrics_page(&node);
        let written: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .filter_map(|line| line.split(' ').next())
            .collect();
        let table: Vec<&str> = family::ALL.iter().map(|family| family.name).collect();
        assert_eq!(written, table);
    }
}
