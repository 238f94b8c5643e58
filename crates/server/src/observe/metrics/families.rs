//! The table of all metrics. `/metrics` and the reference page are both written from it.

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows, until the server restarts.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of values by range, with their sum and total count.
    Histogram,
}

impl MetricKind {
    /// Its name in the text format.
    pub const fn as_str(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// A metric: its name, the labels that distinguish its series, and its meaning.
#[derive(Debug)]
pub struct MetricFamily {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: MetricKind,
    /// Its labels. No label value is ever a client's key.
    pub labels: &'static [&'static str],
    /// Its meaning, in one line.
    pub help: &'static str,
}

/// Defines the constants and the list from the same rows, so that no metric is missing from either.
macro_rules! families {
    ($($(#[$cfg:meta])* $constant:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)+) => {
        $(
            #[doc = $help]
            pub const $constant: MetricFamily =
                MetricFamily { name: $name, kind: MetricKind::$kind, labels: &[$($label),*], help: $help };
        )+
        /// All metrics, in the order in which they are written.
        pub const ALL: &[&MetricFamily] = &[$(&$constant),+];
    };
}

families! {
    BUILD_INFO: Gauge "tidegate_build_info" ["version", "os", "arch"]
        "Always 1; the labels describe the running build.";
    READY: Gauge "tidegate_ready" []
        "1 while /readyz answers 200.";
    DEGRADED: Gauge "tidegate_degraded" []
        "1 while /readyz reports a problem.";
    KILL_SWITCH: Gauge "tidegate_kill_switch" []
        "1 while the kill switch is on and every request is admitted.";
    CLOCK_OFFSET: Gauge "tidegate_clock_offset_seconds" []
        "How far the wall clock is ahead of the monotonic clock since the start: the sum of all changes and drift.";
    CLOCK_MOVES: Counter "tidegate_clock_moves_total" []
        "How often the wall clock was found to have jumped by a second or more.";
    DECISIONS: Counter "tidegate_decisions_total" ["limit", "outcome"]
        "Decisions of single limits, by outcome. A request counts once for each limit that applies to it. The limits of all tenants are one, tenant, unless the settings ask for metrics.tenants.";
    DECISIONS_BY_REASON: Counter "tidegate_decisions_by_reason_total" ["reason"]
        "Decisions by the policy, each counted once, by the reason in the response.";
    NO_LIMIT: Counter "tidegate_no_limit_total" ["missing"]
        "Requests that met no limit, by what kept a limit from applying: a descriptor that the request lacks; (none) if no conditions held; (shadow) if only shadow limits apply. A request counts once for each descriptor.";
    ROUTE_DECISIONS: Counter "tidegate_route_decisions_total" ["route", "outcome"]
        "Decisions by the policy, each counted once, by the pattern of `routes` that the request matched; (other) for all other requests. denied is by a limit, its queue or a burst penalty; refused is for another reason. Empty without `routes`.";
    THROTTLE_DECISIONS: Counter "tidegate_throttle_decisions_total" ["outcome"]
        "Decisions by ad hoc buckets: /v1/throttle and CL.THROTTLE.";
    REQUESTS: Counter "tidegate_requests_total" ["protocol"]
        "Requests that were decided, by protocol.";
    DECISION_DURATION: Histogram "tidegate_decision_duration_seconds" []
        "Time that decisions took inside the engine, without network reads and writes and without waits in queues.";
    TOKENS_REMAINING_RATIO: Histogram "tidegate_tokens_remaining_ratio" ["limit"]
        "Remaining tokens of a limit after each decision, as a fraction of its capacity.";
    QUEUE_WAIT: Histogram "tidegate_queue_wait_seconds" []
        "Time that requests waited in queues before they were admitted.";
    RETRY_WAIT: Histogram "tidegate_retry_wait_seconds" []
        "Time after which denied requests may be retried.";
    UNKNOWN_TENANTS: Counter "tidegate_unknown_tenants_total" []
        "Requests with a tenant that is not in the policy.";
    TENANT_CONTENTION: Counter "tidegate_tenant_contention_total" ["depth"]
        "Requests that the limit of an ancestor denied rather than their own tenant's, by the depth of that ancestor in the tree: 0 is a root.";
    BURST_ACTIONS: Counter "tidegate_burst_actions_total" ["action"]
        "Warnings and blocks by burst detectors.";
    BURSTS_UNTRACKED: Counter "tidegate_bursts_untracked_total" []
        "Requests that burst detectors could not watch because they already watch the maximum number of keys.";
    PENALTIES_UNLISTED: Counter "tidegate_penalties_unlisted_total" []
        "Penalties of burst detectors that were in force without being listed, because the list was full.";
    TRUST_SCORE: Histogram "tidegate_trust_score" []
        "Trust scores of requests that have one.";
    TRUST_FORGOTTEN: Counter "tidegate_trust_forgotten_total" ["what"]
        "Users about whom something was forgotten before its time because there was no room for more: facts that were told, or violations. 0 where trust is not computed.";
    KEYS: Gauge "tidegate_keys" []
        "Keys that have a slot in the store now; some may be idle.";
    KEY_SLOTS: Gauge "tidegate_key_slots" []
        "Number of key slots in the store.";
    KEYS_EVICTED: Counter "tidegate_keys_evicted_total" []
        "Idle keys that were forgotten to make room for others. An idle key has no state to lose.";
    KEYS_OVERFLOWED: Counter "tidegate_keys_overflowed_total" []
        "Charges of keys that found no free slot and were made to the limit's shared overflow bucket.";
    STORE_BYTES: Gauge "tidegate_store_bytes" []
        "Bytes allocated for key slots.";
    STORE_UP: Gauge "tidegate_store_up" []
        "1 while the shared store is available, and in local mode; 0 while limits use their on_store_error.";
    STORE_CALLS: Counter "tidegate_store_calls_total" []
        "Calls to the shared store about limits; what a candidate asks counts too, also if it is sent with the decision's own call. The local store makes none.";
    STORE_CALL_DURATION: Histogram "tidegate_store_call_seconds" []
        "Time that these calls took, those that failed included.";
    STORE_ERRORS: Counter "tidegate_store_errors_total" ["kind"]
        "Failed calls to the shared store, by kind of error. The observability guide explains each kind.";
    STORE_FALLBACKS: Counter "tidegate_store_fallback_decisions_total" ["choice"]
        "Decisions of single limits without the shared store, by their on_store_error.";
    STORE_MASTER_MOVES: Counter "tidegate_store_master_moves_total" []
        "How often Sentinels reported a new master of the shared store. 0 without Sentinel.";
    STORE_SENTINELS_SILENT: Gauge "tidegate_store_sentinels_silent" []
        "Sentinels in the store's address that do not answer. 0 without Sentinel.";
    NODES: Gauge "tidegate_nodes" []
        "Number of nodes that share the limits, as known to this node.";
    LEASE_OVERSHOOT_BOUND: Gauge "tidegate_lease_overshoot_bound_tokens" ["limit"]
        "Number of tokens by which all nodes together may exceed a limit, once for each key. Always 0 outside hybrid mode.";
    POLICY_VERSION: Gauge "tidegate_policy_version" []
        "Version of the policy in force: with a database its number there, otherwise 1 at the start and one more with every reload.";
    POLICY_LIMITS: Gauge "tidegate_policy_limits" []
        "Number of limits in the policy in force, limits of tenants included.";
    POLICY_RELOADS: Counter "tidegate_policy_reloads_total" []
        "Successful reloads of the policy.";
    POLICY_RELOAD_FAILURES: Counter "tidegate_policy_reload_failures_total" []
        "Changed policy files, or new versions in the database, that were not loaded because they are invalid.";
    WAKE_UPS: Counter "tidegate_wake_ups_total" []
        "How often the store has made this node look at the database: at once after a change, and when it connects.";
    FILE_RELOAD_FAILURES: Counter "tidegate_file_reload_failures_total" ["file"]
        "Changed files that could not be loaded; the previous contents stay in force.";
    CONNECTIONS: Gauge "tidegate_connections" ["listener"]
        "Open connections.";
    CONNECTIONS_OPENED: Counter "tidegate_connections_opened_total" ["listener"]
        "Accepted connections.";
    CONNECTIONS_REFUSED: Counter "tidegate_connections_refused_total" ["listener"]
        "Connections that were closed at once because too many were open.";
    PROTOCOL_ERRORS: Counter "tidegate_protocol_errors_total" ["listener"]
        "Requests and connections that were refused because they were malformed, too large or too slow.";
    CREDENTIALS: Counter "tidegate_credentials_total" ["credential"]
        "Requests whose credential was checked, where jwt or api_keys is set: none, valid, invalid, or unknown_key for API keys that are denied. Requests that were decided before the check do not count.";
    TOKENS_REJECTED: Counter "tidegate_tokens_rejected_total" ["why"]
        "Invalid bearer tokens of clients, by reason.";
    API_KEYS: Counter "tidegate_api_keys_total" ["status"]
        "API keys of requests: valid, unknown, expired or disabled.";
    IDENTITY_FAULTS: Counter "tidegate_identity_faults_total" []
        "Requests that were answered with 400 because a source of their identity had a value that cannot be used.";
    PANICS: Counter "tidegate_panics_total" []
        "Panics in the server, which are bugs; each ends the connection, call or task in which it happens.";
    TRACE_SPANS: Counter "tidegate_trace_spans_total" ["outcome"]
        "Trace spans, by outcome. A span that is made but neither exported nor failed is waiting, or was dropped because the queue was full.";
    EVENTS_WRITTEN: Counter "tidegate_events_written_total" ["sink"]
        "Events that were written, by sink: file, stdout or database.";
    EVENTS_DROPPED: Counter "tidegate_events_dropped_total" ["place"]
        "Events that were lost: because a sink could not write them (file, stdout, database), or because too many were waiting (queue).";
    EVENTS_MERGED: Counter "tidegate_events_merged_total" []
        "Events that were merged into one for each name, without limit, key and client, because they came faster than they could be written. Their counts are kept.";
    RECORDS_WAITING: Gauge "tidegate_records_waiting" []
        "Events that wait to be written to the database. It grows while the database does not answer.";
    PROCESS_CPU: Counter "process_cpu_seconds_total" []
        "CPU time, user and system.";
    PROCESS_MEMORY: Gauge "process_resident_memory_bytes" []
        "Resident memory.";
    PROCESS_VIRTUAL_MEMORY: Gauge "process_virtual_memory_bytes" []
        "Virtual memory.";
    PROCESS_FDS: Gauge "process_open_fds" []
        "Open file descriptors.";
    PROCESS_FDS_MAX: Gauge "process_max_fds" []
        "Maximum number of open file descriptors.";
    PROCESS_START: Gauge "process_start_time_seconds" []
        "Start time of the process, in seconds since the Unix epoch.";
}

/// The reference page of metrics, as Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Metrics\n\nThis page is generated from the code by `cargo xtask gen`.\n\n\
         `GET /metrics` on the admin listener answers in the Prometheus text format. \
         [Observability](../observability.md) explains how to use it.\n\n\
         | metric | kind | labels | meaning |\n|---|---|---|---|\n",
    );
    for family in ALL {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let row = [&format!("`{}`", family.name), family.kind.as_str(), &labels.join(", "), family.help];
        page.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_follow_the_conventions() {
        for (constant, family) in ALL.iter().enumerate() {
            assert!(ALL[..constant].iter().all(|other| other.name != family.name), "{}", family.name);
            let is_total = family.name.ends_with("_total");
            assert_eq!(is_total, family.kind == MetricKind::Counter, "{}", family.name);
            assert!(family.help.ends_with('.'), "{}", family.name);
            let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(plain(family.name) && family.labels.iter().all(|label| plain(label)), "{}", family.name);
            assert!(!family.labels.contains(&"le"), "{}: histograms have it", family.name);
        }
    }
}
