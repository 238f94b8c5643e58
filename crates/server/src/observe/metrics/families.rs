//! The one table of metrics: what `/metrics` writes and what the reference page says.

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, until the server starts anew.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How often a value fell into which range, with sum and count.
    Histogram,
}

impl MetricKind {
    /// The word that the text format uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// A metric: a name, the labels that tell its series apart, and what it means.
#[derive(Debug)]
pub struct MetricFamily {
    /// Its name.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: MetricKind,
    /// Its labels. None ever has a client's key as its value.
    pub labels: &'static [&'static str],
    /// What it means, in one line.
    pub help: &'static str,
}

/// Writes the table as constants and as a list, so that neither can forget one.
macro_rules! families {
    ($($(#[$cfg:meta])* $place:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)+) => {
        $(
            #[doc = $help]
            pub const $place: MetricFamily =
                MetricFamily { name: $name, kind: MetricKind::$kind, labels: &[$($label),*], help: $help };
        )+
        /// All metrics, in the order in which they are written.
        pub const ALL: &[&MetricFamily] = &[$(&$place),+];
    };
}

families! {
    BUILD_INFO: Gauge "tidegate_build_info" ["version", "os", "arch"]
        "Always 1; the labels tell what is running.";
    READY: Gauge "tidegate_ready" []
        "1 while /readyz answers 200.";
    DEGRADED: Gauge "tidegate_degraded" []
        "1 while /readyz names a reason why something is not as it should be.";
    KILL_SWITCH: Gauge "tidegate_kill_switch" []
        "1 while everything is admitted by order.";
    CLOCK_OFFSET: Gauge "tidegate_clock_offset_seconds" []
        "How far the wall clock is ahead of where it would be had nobody set it since the start, and had it not drifted.";
    CLOCK_MOVES: Counter "tidegate_clock_moves_total" []
        "How often the wall clock was found a second or more away from where it was last told to be.";
    DECISIONS: Counter "tidegate_decisions_total" ["limit", "outcome"]
        "What limits have said of requests. A request counts once for each limit that applies to it.";
    DECISIONS_BY_REASON: Counter "tidegate_decisions_by_reason_total" ["reason"]
        "Decisions by the policy, each counted once, by the reason that the answer gives.";
    THROTTLE_DECISIONS: Counter "tidegate_throttle_decisions_total" ["outcome"]
        "Decisions by ad-hoc buckets: /v1/throttle and CL.THROTTLE.";
    REQUESTS: Counter "tidegate_requests_total" ["protocol"]
        "Questions that were decided, by the protocol they came by.";
    DECISION_DURATION: Histogram "tidegate_decision_duration_seconds" []
        "How long decisions took inside the engine, without reading, writing and waiting in queues.";
    TOKENS_REMAINING_RATIO: Histogram "tidegate_tokens_remaining_ratio" ["limit"]
        "How much of a limit was left after each decision, as a share of its capacity.";
    QUEUE_WAIT: Histogram "tidegate_queue_wait_seconds" []
        "How long requests waited in queues before they were admitted.";
    RETRY_WAIT: Histogram "tidegate_retry_wait_seconds" []
        "How long denied requests were told to wait.";
    UNKNOWN_TENANTS: Counter "tidegate_unknown_tenants_total" []
        "Requests that named a tenant which the policy does not know.";
    BURST_ACTIONS: Counter "tidegate_burst_actions_total" ["action"]
        "Warnings and blocks that burst detectors have given.";
    BURSTS_UNTRACKED: Counter "tidegate_bursts_untracked_total" []
        "Requests that burst detectors could not watch for want of room.";
    TRUST_SCORE: Histogram "tidegate_trust_score" []
        "How far callers were trusted, where requests say it.";
    KEYS: Gauge "tidegate_keys" []
        "Keys that have a place in the store now; some may be idle.";
    KEY_SLOTS: Gauge "tidegate_key_slots" []
        "How many keys could have a place at once.";
    KEYS_EVICTED: Counter "tidegate_keys_evicted_total" []
        "Idle keys whose place went to another. Nothing is lost by it.";
    KEYS_OVERFLOWED: Counter "tidegate_keys_overflowed_total" []
        "Charges that found no place of their own and went to the bucket that such keys of a limit share.";
    STORE_BYTES: Gauge "tidegate_store_bytes" []
        "Bytes reserved for the places of keys.";
    STORE_UP: Gauge "tidegate_store_up" []
        "1 while the shared store is asked, and in local mode; 0 while limits go by their on_store_error.";
    STORE_CALLS: Counter "tidegate_store_calls_total" []
        "Calls to the shared store about limits. The local store makes none.";
    STORE_ERRORS: Counter "tidegate_store_errors_total" ["kind"]
        "Calls to the shared store that failed, by why. Observability tells what each kind means.";
    STORE_FALLBACKS: Counter "tidegate_store_fallback_decisions_total" ["choice"]
        "What limits have said without the shared store, by their on_store_error.";
    STORE_MASTER_MOVES: Counter "tidegate_store_master_moves_total" []
        "How often the shared store was found at another master, as Sentinels say. 0 without Sentinel.";
    STORE_SENTINELS_SILENT: Gauge "tidegate_store_sentinels_silent" []
        "Sentinels in the store's address that do not answer. 0 without Sentinel.";
    NODES: Gauge "tidegate_nodes" []
        "How many nodes share the limits, as far as this one knows.";
    LEASE_OVERSHOOT_BOUND: Gauge "tidegate_lease_overshoot_bound_tokens" ["limit"]
        "By how many tokens the nodes together may exceed a limit, once for each key. 0 but in hybrid mode.";
    POLICY_VERSION: Gauge "tidegate_policy_version" []
        "Which policy is in force: 1 at first, one more with every reload.";
    POLICY_LIMITS: Gauge "tidegate_policy_limits" []
        "How many limits the policy in force has, those of tenants included.";
    POLICY_RELOADS: Counter "tidegate_policy_reloads_total" []
        "Policies that were put into force after the first.";
    POLICY_RELOAD_FAILURES: Counter "tidegate_policy_reload_failures_total" []
        "Edits of the policy that were not put into force because they are not valid.";
    FILE_RELOAD_FAILURES: Counter "tidegate_file_reload_failures_total" ["file"]
        "Changed files that could not be used, so that what was read before stays in force.";
    CONNECTIONS: Gauge "tidegate_connections" ["listener"]
        "Connections that are open now.";
    CONNECTIONS_OPENED: Counter "tidegate_connections_opened_total" ["listener"]
        "Connections that were accepted.";
    CONNECTIONS_REFUSED: Counter "tidegate_connections_refused_total" ["listener"]
        "Connections that were closed at once because there are too many.";
    PROTOCOL_ERRORS: Counter "tidegate_protocol_errors_total" ["listener"]
        "Requests and connections that were refused because they are malformed, too big or too slow.";
    CREDENTIALS: Counter "tidegate_credentials_total" ["credential"]
        "Requests whose credential was looked at, where jwt is set: none, valid, or invalid. Those decided before that are not among them.";
    TOKENS_REJECTED: Counter "tidegate_tokens_rejected_total" ["why"]
        "Bearer tokens of clients that do not hold, by why.";
    PANICS: Counter "tidegate_panics_total" []
        "Faults in the server itself; each ends the connection, the call or the task that it happens in.";
    TRACE_SPANS: Counter "tidegate_trace_spans_total" ["outcome"]
        "Spans that were made, and what became of them. Made, but neither exported nor failed: waiting, or dropped since too many waited.";
    PROCESS_CPU: Counter "process_cpu_seconds_total" []
        "Time on processors, of the user and of the system.";
    PROCESS_MEMORY: Gauge "process_resident_memory_bytes" []
        "Memory in use.";
    PROCESS_VIRTUAL_MEMORY: Gauge "process_virtual_memory_bytes" []
        "Memory reserved.";
    PROCESS_FDS: Gauge "process_open_fds" []
        "Files and sockets that are open.";
    PROCESS_FDS_MAX: Gauge "process_max_fds" []
        "How many may be open.";
    PROCESS_START: Gauge "process_start_time_seconds" []
        "When the process started, in seconds since the Unix epoch.";
}

/// The reference page.
pub fn reference() -> String {
    let mut page = String::from(
        "# Metrics\n\nThis page is written from the code; `cargo xtask gen` rewrites it.\n\n\
         `GET /metrics` on the admin listener answers in the Prometheus text format. \
         [Observability](../observability.md) tells how to use it.\n\n\
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
        for (place, family) in ALL.iter().enumerate() {
            assert!(ALL[..place].iter().all(|other| other.name != family.name), "{}", family.name);
            let is_total = family.name.ends_with("_total");
            assert_eq!(is_total, family.kind == MetricKind::Counter, "{}", family.name);
            assert!(family.help.ends_with('.'), "{}", family.name);
            let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(plain(family.name) && family.labels.iter().all(|label| plain(label)), "{}", family.name);
            assert!(!family.labels.contains(&"le"), "{}: histograms have it", family.name);
        }
    }
}
