//! A Redis server for one test, and the settings that name it.

#[path = "../../../redis/tests/support/process.rs"]
mod process;

pub(crate) use process::Redis;

impl Redis {
    /// Settings of a Tidegate server that uses it.
    pub(crate) fn settings(&self, mode: &str) -> String {
        format!(
            "store: {{ mode: {mode}, max_keys: 10000, \
             redis: {{ url: \"redis://127.0.0.1:{}\", deadline: 500ms }} }}\n",
            self.port
        )
    }
}
