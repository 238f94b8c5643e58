//! What a node tells of: changes that are made through it, and the trace of the request that it decides.

use std::net::IpAddr;

use tidegate::engine::RuleSet;
use tidegate::{Clock, LimitError};

use super::Node;
use crate::control::ControlPlane;
use crate::control::access::AccessError;
use crate::observe::events::policy_changes;
use crate::observe::{Events, Origin, TraceScope};

/// Why the kill switch is on if the settings say so.
const KILL_SWITCH_SETTING: &str = "TIDEGATE_KILL_SWITCH";

impl Node {
    /// The control plane, if it was started.
    pub fn control(&self) -> Option<&ControlPlane> {
        self.control.get()
    }

    /// Starts to answer the admin API by this control plane, unless there is one already.
    pub fn set_control(&self, control: ControlPlane) {
        let _second = self.control.set(control);
    }

    /// Tells of a wrong token that was sent to the admin API from this address.
    pub(crate) fn note_access_error(&self, error: &AccessError, address: IpAddr) {
        if *error == AccessError::Invalid {
            tracing::warn!(%address, "a wrong token was sent to the admin API");
            self.events.login_failed(address, self.clock().wall());
        }
    }

    /// What happened, for people and other programs to read.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// The same node, where the policy that it was made with has this version.
    #[must_use]
    pub fn starting_at(self, version: u64) -> Node {
        Node { limiter: self.limiter.starting_at(version), ..self }
    }

    /// Replaces the policy, tells of the changes, and returns its version. `None` is one more than the version before.
    ///
    /// # Errors
    /// When the store cannot hold its limits; then the old policy stays.
    pub fn swap_policy(&self, rules: RuleSet, version: Option<u64>) -> Result<u64, LimitError> {
        let before = self.limiter.rules();
        let version = self.limiter.swap_to(rules, version)?;
        if self.events.is_on() {
            let changes = policy_changes(&before, &self.limiter.rules(), version, self.clock().wall());
            changes.into_iter().for_each(|event| self.events.push(event));
        }
        Ok(version)
    }

    /// Switches the kill switch on or off as the settings say, and tells of it if that is a change.
    pub fn set_kill_switch(&self, on: bool) {
        self.switch_limits(on, Some(KILL_SWITCH_SETTING));
    }

    /// The same as the live entries say.
    pub(crate) fn follow_kill_switch(&self, on: bool) {
        self.switch_limits(on, None);
    }

    fn switch_limits(&self, on: bool, why: Option<&str>) {
        let was_on = self.limiter.kill_switch();
        self.limiter.set_kill_switch(on);
        if on != was_on {
            self.events.kill_switch_changed(on, why, self.clock().wall());
        }
    }

    /// Does something name the traces of requests, so that their `traceparent` header is needed?
    #[inline]
    pub(crate) fn reads_traces(&self) -> bool {
        self.traces.is_on() || self.events.is_on()
    }

    /// The `traceparent` header of a request, if events are to name its trace.
    #[inline]
    pub(super) fn told_trace<'o>(&self, origin: Origin<'o>) -> Option<&'o str> {
        origin.traceparent.filter(|_| self.events.is_on())
    }

    /// Makes the trace of a request the current one while it is decided at once.
    #[inline]
    pub(super) fn trace_scope(&self, origin: Origin<'_>) -> Option<TraceScope> {
        TraceScope::enter(self.told_trace(origin))
    }
}
