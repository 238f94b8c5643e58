//! Where counters are kept: `store` and `rate_limit_sync`, which is another way to ask for `hybrid`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tidegate::Nanos;
use tidegate_policy::node::{DocumentNode, ValueKind};
use tidegate_policy::{OnStoreError, Problem, Span, form};
use tidegate_redis::{StoreMode, StoreOptions};

use super::read::{Reader, integer, text};
use super::{HIDDEN, Settings};

/// A store that nodes share. What it prints for `Debug` has no secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedStoreSettings {
    /// Strict or hybrid.
    pub mode: StoreMode,
    /// The server's address. It may carry a password: [`SharedStoreSettings::shown`] has none.
    pub url: String,
    /// How long a call may take.
    pub deadline: Nanos,
    /// How keys begin.
    pub prefix: String,
    /// Certificates to trust beside the system's.
    pub ca: Option<PathBuf>,
}

impl SharedStoreSettings {
    /// The usual one.
    pub fn new(mode: StoreMode) -> SharedStoreSettings {
        SharedStoreSettings {
            mode,
            url: "redis://127.0.0.1:6379".to_owned(),
            deadline: Nanos::from_millis(20),
            prefix: StoreOptions::new(mode).prefix,
            ca: None,
        }
    }

    /// `strict` or `hybrid`.
    pub const fn mode_name(&self) -> &'static str {
        match self.mode {
            StoreMode::Strict => "strict",
            StoreMode::Hybrid { .. } => "hybrid",
        }
    }

    /// The address as it may be shown: without who logs in, and without options.
    pub fn shown(&self) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("", &self.url));
        // A password may have any of these in it, so the login goes first.
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        let place = place.split(['?', '#']).next().unwrap_or_default();
        if scheme.is_empty() { place.to_owned() } else { format!("{scheme}://{place}") }
    }
}

impl fmt::Debug for SharedStoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedStoreSettings { mode, deadline, prefix, ca, .. } = self;
        f.debug_struct("SharedStore")
            .field("mode", mode)
            .field("url", &HIDDEN)
            .field("deadline", deadline)
            .field("prefix", prefix)
            .field("ca", ca)
            .finish()
    }
}

/// Which store is asked for.
enum Asked {
    Local,
    Strict,
    Hybrid,
}

impl Reader<'_> {
    pub(super) fn store(&mut self, root: &DocumentNode, settings: &mut Settings) {
        let (store, sync) = (root.get("store"), root.get("rate_limit_sync"));
        let word = sync.and_then(|sync| text(sync, "fallback_on_error"));
        settings.on_store_error = match word.as_deref() {
            Some("open") => OnStoreError::Open,
            Some("closed") => OnStoreError::Closed,
            _ => OnStoreError::Local,
        };
        let redis = store.and_then(|store| store.get("redis"));
        let life = sync.and_then(|sync| integer(sync, "sync_interval_ms"));
        let life = life.map_or(StoreOptions::LEASE_LIFE, Duration::from_millis);
        settings.shared = match self.asked(store, sync) {
            Asked::Strict => Some(self.shared(StoreMode::Strict, redis)),
            Asked::Hybrid => Some(self.shared(StoreMode::Hybrid { life }, redis)),
            Asked::Local => {
                if let Some(redis) = redis {
                    let problem = Problem::warning(
                        redis.at,
                        "store.redis",
                        "`store.redis` is not used in `local` mode",
                    );
                    self.problems.push(problem.saw("a Redis").hint("add `mode: strict` or `mode: hybrid`"));
                }
                None
            }
        };
        let Some(store) = store else { return };
        if let Some(keys) = integer(store, "max_keys").and_then(|keys| usize::try_from(keys).ok()) {
            settings.max_keys = keys;
        }
        if let Some(nodes) = integer(store, "nodes").and_then(|nodes| u32::try_from(nodes).ok()) {
            self.nodes(store, nodes, settings);
        }
    }

    /// Which store the two sections ask for together.
    fn asked(&mut self, store: Option<&DocumentNode>, sync: Option<&DocumentNode>) -> Asked {
        let word = store.and_then(|store| text(store, "mode"));
        let enabled = sync.and_then(|sync| sync.get("enabled"));
        let synced = enabled.map(|enabled| (matches!(enabled.kind, ValueKind::Bool(true)), enabled.at));
        match (word.as_deref(), synced) {
            (Some(word @ ("local" | "strict")), Some((true, at))) => {
                self.contradiction(
                    at,
                    &format!("`rate_limit_sync` is on, which is `hybrid`, and `store.mode` is `{word}`"),
                );
                Asked::Local
            }
            (Some("hybrid"), Some((false, at))) => {
                self.contradiction(at, "`rate_limit_sync` is off, and `store.mode` is `hybrid`");
                Asked::Local
            }
            (Some("hybrid"), _) | (None, Some((true, _))) => Asked::Hybrid,
            (Some("strict"), _) => Asked::Strict,
            (_, _) => Asked::Local,
        }
    }

    fn contradiction(&mut self, at: Span, message: &str) {
        let problem = Problem::error(at, "rate_limit_sync.enabled", message);
        self.problems.push(problem.want("one of the two").hint("remove `rate_limit_sync`"));
    }

    fn shared(&mut self, mode: StoreMode, redis: Option<&DocumentNode>) -> SharedStoreSettings {
        let mut shared = SharedStoreSettings::new(mode);
        let Some(redis) = redis else { return shared };
        if let Some(url) = text(redis, "url") {
            shared.url = url;
        }
        if let Some(deadline) = redis.get("deadline").and_then(form::duration) {
            shared.deadline = deadline;
        }
        if let Some(node) = redis.get("prefix")
            && let Some(prefix) = node.scalar()
        {
            if !is_prefix(prefix) {
                let problem = Problem::error(node.at, "store.redis.prefix", "this cannot begin a key");
                self.problems.push(problem.want("letters, digits, `-`, `_`, `.` and `:`"));
            }
            shared.prefix = prefix.to_owned();
        }
        shared.ca = self.path(redis, "ca");
        shared
    }

    /// Only nodes that do not share a store divide the limits.
    fn nodes(&mut self, store: &DocumentNode, nodes: u32, settings: &mut Settings) {
        let Some(shared) = settings.shared.as_ref().filter(|_| nodes > 1) else {
            settings.nodes = nodes;
            return;
        };
        let message =
            format!("`store.nodes` divides limits in `local` mode; the mode is `{}`", shared.mode_name());
        let at = store.get("nodes").map_or(store.at, |node| node.at);
        let problem = Problem::error(at, "store.nodes", message).want("no `nodes`");
        self.problems.push(problem.hint("remove it: nodes that share a Redis count themselves"));
    }
}

/// A brace would say where in a Cluster a key belongs, and a space would be hard to name in an ACL.
fn is_prefix(prefix: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    !prefix.is_empty() && prefix.bytes().all(plain)
}
