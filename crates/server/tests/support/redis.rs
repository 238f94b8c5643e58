//! A Redis server for one test, and the settings that name it.

#[path = "../../../redis/tests/support/process.rs"]
mod process;

pub(crate) use process::Redis;

impl Redis {
    /// Settings of a Tidegate server that uses it. The deadline is so long that no call misses it because the machine is busy:
    /// `on_store_error` would decide then, and exact counts would be wrong. A server that is gone or stopped is noticed by its
    /// connection, in less.
    pub(crate) fn settings(&self, mode: &str) -> String {
        format!(
            "store: {{ mode: {mode}, max_keys: 10000, \
             redis: {{ url: \"redis://127.0.0.1:{}\", deadline: 10s }} }}\n",
            self.port
        )
    }
}
