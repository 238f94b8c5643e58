//! Real servers for tests, and a plain link to them.
#![allow(dead_code, unreachable_pub, reason = "every test uses some of it")]

pub mod process;
pub mod vectors;

use std::sync::atomic::{AtomicU32, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, ServerErrorKind, Value};
use tidegate::Nanos;
use tidegate_redis::testing::{
    EncodedCall, decode, decode_bursts, decode_heartbeat, decode_penalties, encode, encode_bursts,
    encode_heartbeat, encode_penalties,
};
use tidegate_redis::{
    BucketKey, BurstAnswer, BurstCall, CallAnswer, Heartbeat, Link, LinkError, PenaltyListAnswer,
    PenaltyListCall, ScriptCall,
};

pub use self::process::Redis;

impl Redis {
    /// A connection of its own, to inspect the data.
    pub fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).expect("the address is one");
        client.get_connection().expect("the server answers")
    }
}

/// A prefix that no other test uses.
pub fn fresh_prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A heartbeat of a node of the store with that prefix.
pub fn heartbeat(prefix: &str, node: u128, alive: bool, within: Nanos) -> Heartbeat {
    Heartbeat { key: BucketKey(format!("{prefix}:1:{{nodes}}").into()), node, alive, within }
}

/// A runtime for tests that wait on several threads.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be made")
}

/// A minimal link: one connection, no deadline.
#[derive(Clone, Debug)]
pub struct PlainLink {
    connection: MultiplexedConnection,
    slots: bool,
}

impl PlainLink {
    pub async fn connect(server: &Redis) -> PlainLink {
        let client = redis::Client::open(server.url()).expect("the address is one");
        let connection = client.get_multiplexed_async_connection().await.expect("the server answers");
        PlainLink { connection, slots: false }
    }

    /// The same link, reported as spread over slots.
    pub fn with_slots(self) -> PlainLink {
        PlainLink { slots: true, ..self }
    }

    pub async fn send(&self, encoded: &EncodedCall) -> Result<Value, LinkError> {
        let script = encoded.script;
        match self.eval("EVALSHA", &script.sha, encoded).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.eval("EVAL", &script.text, encoded).await
            }
            other => other,
        }
        .map_err(|error| LinkError::Refused(error.to_string()))
    }

    async fn eval(
        &self,
        verb: &str,
        script: &str,
        encoded: &EncodedCall,
    ) -> Result<Value, redis::RedisError> {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(encoded.keys.len());
        encoded.keys.iter().for_each(|key| {
            command.arg(&*key.0);
        });
        encoded.args.iter().for_each(|argument| {
            command.arg(argument.as_slice());
        });
        command.query_async(&mut self.connection.clone()).await
    }
}

impl Link for PlainLink {
    async fn call(&self, call: &ScriptCall) -> Result<CallAnswer, LinkError> {
        decode(call, self.send(&encode(call)).await?)
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<u32, LinkError> {
        decode_heartbeat(self.send(&encode_heartbeat(heartbeat)).await?)
    }

    async fn count_bursts(&self, call: &BurstCall) -> Result<Vec<BurstAnswer>, LinkError> {
        decode_bursts(call, self.send(&encode_bursts(call)).await?)
    }

    async fn list_penalties(&self, call: &PenaltyListCall) -> Result<PenaltyListAnswer, LinkError> {
        decode_penalties(self.send(&encode_penalties(call)).await?)
    }

    fn has_slots(&self) -> bool {
        self.slots
    }
}
