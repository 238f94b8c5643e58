//! The scripts that run on the server, and the names by which it knows them.
//!
//! A script is put together from parts, for scripts cannot share anything on the server. Which parts are needed
//! depends on the algorithms of a call, and the fewer there are the less the server has to do: the commonest calls
//! have a script of their own.

use std::sync::LazyLock;

/// A script: its text, and the SHA-1 of it by which `EVALSHA` calls it.
#[derive(Debug)]
pub struct Script {
    /// What `EVAL` sends.
    pub text: String,
    /// What `EVALSHA` sends: 40 hexadecimal digits.
    pub sha: String,
}

impl Script {
    fn new(parts: &[&str]) -> Script {
        let text = parts.concat();
        let sha = redis::Script::new(&text).get_hash().to_owned();
        Script { text, sha }
    }
}

/// One script, by whose clock it goes.
#[derive(Debug)]
pub(crate) struct ScriptClocks {
    server: LazyLock<Script>,
    #[cfg(feature = "testing")]
    given: LazyLock<Script>,
}

impl ScriptClocks {
    /// The script that goes by the server's clock or, for tests, by the instant that is given.
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
                Script::new(&[include_str!("server_time.lua"), $(include_str!($part)),+])
            }),
            #[cfg(feature = "testing")]
            given: LazyLock::new(|| {
                Script::new(&[include_str!("given_time.lua"), $(include_str!($part)),+])
            }),
        }
    };
}

/// Takes from plain token buckets, all or none.
pub(crate) static CHARGE_PLAIN: ScriptClocks = timed!("charge_plain.lua");

/// Takes from token buckets and windows, all or none, or says what that would do.
pub(crate) static CHARGE: ScriptClocks =
    timed!("arithmetic.lua", "states.lua", "windows.lua", "leases.lua", "charge.lua");

/// The same where there are logs too.
pub(crate) static CHARGE_LOGS: ScriptClocks =
    timed!("arithmetic.lua", "states.lua", "windows.lua", "leases.lua", "logs.lua", "charge.lua");

/// Gives back.
pub(crate) static GIVE: ScriptClocks =
    timed!("arithmetic.lua", "states.lua", "windows.lua", "logs.lua", "give_logs.lua", "give.lua");

/// Counts the nodes.
pub(crate) static BEAT: ScriptClocks = timed!("beat.lua");
