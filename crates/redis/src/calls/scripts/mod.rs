//! The Lua scripts that run on the server.
//!
//! Scripts cannot share code on the server, so each is concatenated from the parts in `shared/`. The fewer parts, the
//! less work for the server: the most frequent call, a take from plain token buckets, has a small script of its own.

use std::sync::LazyLock;

/// The text of a script, and its SHA-1.
#[derive(Debug)]
pub struct Script {
    /// The argument of `EVAL`.
    pub text: String,
    /// The argument of `EVALSHA`: 40 hexadecimal digits.
    pub sha: String,
}

impl Script {
    fn new(parts: &[&str]) -> Script {
        let text = parts.concat();
        let sha = redis::Script::new(&text).get_hash().to_owned();
        Script { text, sha }
    }
}

/// A script in two variants: with the server's clock, and with a given time for tests.
#[derive(Debug)]
pub(crate) struct ScriptClocks {
    server: LazyLock<Script>,
    #[cfg(feature = "testing")]
    given: LazyLock<Script>,
}

impl ScriptClocks {
    /// The variant that uses the server's clock, or (`given`) the time in the last two arguments.
    pub(crate) fn script(&'static self, given: bool) -> &'static Script {
        #[cfg(feature = "testing")]
        if given {
            return &self.given;
        }
        debug_assert!(!given, "only tests give the time");
        &self.server
    }
}

macro_rules! timed {
    ($($part:literal),+) => {
        ScriptClocks {
            server: LazyLock::new(|| {
                Script::new(&[include_str!("shared/server_time.lua"), $(include_str!($part)),+])
            }),
            #[cfg(feature = "testing")]
            given: LazyLock::new(|| {
                Script::new(&[include_str!("shared/given_time.lua"), $(include_str!($part)),+])
            }),
        }
    };
}

/// Takes from plain token buckets: all or none.
pub(crate) static CHARGE_PLAIN: ScriptClocks = timed!("charge_plain.lua");

/// Takes from token buckets and windows, all or none; or answers what that would do.
pub(crate) static CHARGE: ScriptClocks = timed!(
    "shared/arithmetic.lua",
    "shared/states.lua",
    "shared/windows.lua",
    "shared/leases.lua",
    "charge.lua"
);

/// The same, with sliding logs.
pub(crate) static CHARGE_LOGS: ScriptClocks = timed!(
    "shared/arithmetic.lua",
    "shared/states.lua",
    "shared/windows.lua",
    "shared/leases.lua",
    "shared/logs.lua",
    "charge.lua"
);

/// Refunds and hands back.
pub(crate) static GIVE_BACK: ScriptClocks = timed!(
    "shared/arithmetic.lua",
    "shared/states.lua",
    "shared/windows.lua",
    "shared/logs.lua",
    "shared/give_back_logs.lua",
    "give_back.lua"
);

/// Counts requests in burst detectors.
pub(crate) static BURSTS: ScriptClocks = timed!("bursts.lua");

/// Adds to, removes from and reads the list of penalties.
pub(crate) static PENALTIES: ScriptClocks = timed!("penalties.lua");

/// Reads and changes live entries.
pub(crate) static LIVE: ScriptClocks = timed!("shared/sequence.lua", "live.lua");

/// Tells and reads when live entries were last used.
pub(crate) static USES: ScriptClocks = timed!("uses.lua");

/// Lets nodes tell each other of themselves.
pub(crate) static FLEET: ScriptClocks = timed!("fleet.lua");

/// Reads and changes what is known about users.
pub(crate) static TRUST: ScriptClocks = timed!("shared/sequence.lua", "trust.lua");

/// Records a heartbeat, and counts the nodes.
pub(crate) static HEARTBEAT: ScriptClocks = timed!("heartbeat.lua");
