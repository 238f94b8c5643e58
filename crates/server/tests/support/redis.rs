//! A Redis of one test, as the settings of a server name it.

#[path = "../../../redis/tests/support/process.rs"]
mod process;

pub(crate) use process::Redis;

impl Redis {
    /// The settings of a server that uses it.
    pub(crate) fn settings(&self, mode: &str) -> String {
        format!(
            "store: {{ mode: {mode}, max_keys: 10000, \
             redis: {{ url: \"redis://127.0.0.1:{}\", deadline: 500ms }} }}\n",
            self.port
        )
    }
}
