//! The kill switch by the admin API: all limits off for a while.

use tidegate_database::UnixMillis;

use super::entry::LiveEntry;
use crate::control::ControlPlane;
use crate::control::api::rfc3339;

impl ControlPlane {
    /// The entry that holds longest, if the kill switch is on by the admin API.
    pub(crate) fn kill_switch(&self, now: UnixMillis) -> Option<LiveEntry> {
        self.live().kill_switches(now).into_iter().max_by_key(|entry| entry.until)
    }

    /// When the kill switch goes off by itself; `None` if the settings have switched it on, or it is off.
    pub(crate) fn kill_switch_end(&self, now: UnixMillis) -> Option<String> {
        if self.live().is_kill_switch_forced() {
            return None;
        }
        self.kill_switch(now)?.until.map(rfc3339)
    }
}
