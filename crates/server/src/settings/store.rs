//! The sections `store` and `rate_limit_sync`: which store keeps the counters. `rate_limit_sync.enabled` is another
//! spelling of `store.mode: hybrid`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tidegate::Nanos;
use tidegate_document::{DocumentNode, Problem, Span, ValueKind, WINDOW_MILLIS_MAX, value};
use tidegate_policy::OnStoreError;
use tidegate_redis::{StoreMode, StoreOptions};

use super::read::{Reader, integer, text};
use super::{HIDDEN, Settings};

/// The settings of a store that nodes share. Its `Debug` output hides secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedStoreSettings {
    /// Strict or hybrid.
    pub mode: StoreMode,
    /// The server's URL. It may contain a password; [`SharedStoreSettings::display_url`] does not.
    pub url: String,
    /// The timeout of a call.
    pub deadline: Nanos,
    /// The prefix of all keys.
    pub prefix: String,
    /// A PEM file of certificates to trust besides the system's.
    pub ca: Option<PathBuf>,
}

impl SharedStoreSettings {
    /// The defaults for a mode.
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

    /// The URL for messages: without user, password and options.
    pub fn display_url(&self) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("", &self.url));
        // A password may contain `?` or `#`, so cut off the login before the options.
        let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address);
        let address = address.split(['?', '#']).next().unwrap_or_default();
        if scheme.is_empty() { address.to_owned() } else { format!("{scheme}://{address}") }
    }
}

impl fmt::Debug for SharedStoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedStoreSettings { mode, deadline, prefix, ca, .. } = self;
        f.debug_struct("SharedStoreSettings")
            .field("mode", mode)
            .field("url", &HIDDEN)
            .field("deadline", deadline)
            .field("prefix", prefix)
            .field("ca", ca)
            .finish()
    }
}

/// The store that the two sections select together.
enum StoreChoice {
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
        settings.shared = match self.choice(store, sync) {
            StoreChoice::Strict => Some(self.shared(StoreMode::Strict, redis)),
            StoreChoice::Hybrid => Some(self.shared(StoreMode::Hybrid { life }, redis)),
            StoreChoice::Local => {
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

    /// Which store the two sections select together.
    fn choice(&mut self, store: Option<&DocumentNode>, sync: Option<&DocumentNode>) -> StoreChoice {
        let word = store.and_then(|store| text(store, "mode"));
        let enabled = sync.and_then(|sync| sync.get("enabled"));
        let synced = enabled.map(|enabled| (matches!(enabled.kind, ValueKind::Bool(true)), enabled.at));
        match (word.as_deref(), synced) {
            (Some(word @ ("local" | "strict")), Some((true, at))) => {
                self.contradiction(
                    at,
                    &format!("`rate_limit_sync` is on, which means `hybrid`, but `store.mode` is `{word}`"),
                );
                StoreChoice::Local
            }
            (Some("hybrid"), Some((false, at))) => {
                self.contradiction(at, "`rate_limit_sync` is off, but `store.mode` is `hybrid`");
                StoreChoice::Local
            }
            (Some("hybrid"), _) | (None, Some((true, _))) => StoreChoice::Hybrid,
            (Some("strict"), _) => StoreChoice::Strict,
            (_, _) => StoreChoice::Local,
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
        if let Some(deadline) =
            redis.get("deadline").and_then(|node| value::duration(node, WINDOW_MILLIS_MAX).ok())
        {
            shared.deadline = deadline;
        }
        if let Some(node) = redis.get("prefix")
            && let Some(prefix) = node.scalar()
        {
            if !is_prefix(prefix) {
                let problem = Problem::error(node.at, "store.redis.prefix", "this cannot be a key prefix");
                self.problems.push(problem.want("only letters, digits, `-`, `_`, `.` and `:`"));
            }
            shared.prefix = prefix.to_owned();
        }
        shared.ca = self.path(redis, "ca");
        shared
    }

    /// `nodes` divides limits between nodes that do not share a store. With a shared store it is an error.
    fn nodes(&mut self, store: &DocumentNode, nodes: u32, settings: &mut Settings) {
        let Some(shared) = settings.shared.as_ref().filter(|_| nodes > 1) else {
            settings.nodes = nodes;
            return;
        };
        let message = format!("`store.nodes` is only for `local` mode; the mode is `{}`", shared.mode_name());
        let at = store.get("nodes").map_or(store.at, |node| node.at);
        let problem = Problem::error(at, "store.nodes", message).want("no `nodes`");
        self.problems.push(problem.hint("remove it: nodes that share a Redis find each other there"));
    }
}

/// Braces would change the slot of a key in a Redis Cluster, and spaces are hard to write in an ACL rule.
fn is_prefix(prefix: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    !prefix.is_empty() && prefix.bytes().all(plain)
}
