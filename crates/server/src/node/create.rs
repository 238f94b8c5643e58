//! How a node is made from its settings and its policy.

use std::sync::{Arc, OnceLock};

use tidegate::engine::trust::TrustBook;
use tidegate::engine::{Limiter, RuleSet};
use tidegate::{Clock, Memory, MemoryOptions, MonotonicClock, Nanos};

use super::store::{NodeStore, StoreThread};
use super::{Node, NodeError};
use crate::bounds::budget::ByteBudget;
use crate::bounds::{BACKLOG_BYTES_MAX, BODIES_BYTES_MAX};
use crate::identity::Identity;
use crate::node::lifecycle::Lifecycle;
use crate::observe::events::PastViolations;
use crate::observe::{EventSink, Events, EventsError, LimitCoverage, Metrics, Traces};
use crate::settings::Settings;

impl Node {
    /// Creates a node, and starts the thread of a shared store.
    ///
    /// # Errors
    /// When the policy has too many limits or limits that the store cannot count, when there is not enough memory for
    /// `max_keys`, or when the URL of a shared store is invalid. A store that does not answer is not an error.
    pub fn new(settings: Settings, rules: RuleSet, identity: Identity) -> Result<Node, NodeError> {
        Node::with_sinks(settings, rules, identity, Vec::new())
    }

    /// The same for a node whose events also go to these sinks.
    ///
    /// # Errors
    /// The same.
    pub fn with_sinks(
        settings: Settings,
        rules: RuleSet,
        identity: Identity,
        sinks: Vec<Box<dyn EventSink>>,
    ) -> Result<Node, NodeError> {
        let options = MemoryOptions { max_keys: settings.max_keys, ..MemoryOptions::default() };
        let clock = MonotonicClock::new();
        // Before the first event of this node is written.
        let past_violations = past_violations(&settings, clock.wall());
        let events = Events::start(settings.events.as_ref(), sinks, clock.clone())?;
        let (limiter, store_thread) = match &settings.shared {
            None => {
                let memory = Memory::with_clock(options, clock.clone())?;
                (Limiter::with_store(rules, NodeStore::Local(memory), clock)?, None)
            }
            Some(shared) => {
                let (store, store_thread) = StoreThread::start(shared, clock.clone(), events.clone())?;
                let limiter = Limiter::with_store(rules, NodeStore::Shared(store), clock)?;
                (limiter.with_fallback(options)?, Some(store_thread))
            }
        };
        let limiter = limiter.with_ad_hoc(options)?;
        let mut limiter = match &settings.trust {
            Some(trust) => {
                let book = Arc::new(TrustBook::new(trust.options.clone()));
                let read = past_violations.map(|past| past.read_into(Arc::clone(&book)));
                read.transpose().map_err(EventsError::Thread)?;
                limiter.with_trust_book(book)
            }
            None => limiter,
        };
        if let Some(observer) = events.observer() {
            limiter = limiter.with_observer(observer);
        }
        limiter.set_invalid_credentials(settings.jwt.as_ref().map(|jwt| jwt.invalid).unwrap_or_default());
        Ok(Node {
            limiter,
            identity,
            settings,
            lifecycle: Lifecycle::default(),
            metrics: Metrics::default(),
            traces: Traces::default(),
            events,
            coverage: LimitCoverage::default(),
            body_budget: ByteBudget::of(BODIES_BYTES_MAX),
            backlog_budget: ByteBudget::of(BACKLOG_BYTES_MAX),
            store_thread,
            control: OnceLock::new(),
        })
    }
}

/// The violations before the start, if trust is computed and there is an events file.
fn past_violations(settings: &Settings, wall: Nanos) -> Option<PastViolations> {
    let file = settings.events.as_ref()?.file.as_deref()?;
    settings.trust.is_some().then(|| PastViolations::open(file, wall))
}
