//! A master under Sentinel that is replaced.

use std::time::Duration;

use rustix::process::Signal;
use tidegate_redis::{Link, LinkError, RedisClient};

use super::calls::{connect, heartbeat, take};
use super::process::{Redis, free_port, signal, until};

const PATIENCE: Duration = Duration::from_secs(20);

/// Longer than it takes the client to leave a master that was replaced after Sentinels report it.
pub(crate) const MOVES_WITHIN: Duration = Duration::from_secs(15);

/// The user of Sentinels and replicas, so that they can be locked out while other clients are not.
const OTHERS: [&str; 7] = ["--user", "others", "on", ">pass", "allkeys", "allchannels", "+@all"];

/// A Sentinel that calls the master `tide`, and replaces it soon.
pub(crate) async fn watch_over(master: &Redis) -> Redis {
    Redis::start_sentinel(&format!(
        "sentinel monitor tide 127.0.0.1 {} 1\nsentinel down-after-milliseconds tide 300\n\
         sentinel failover-timeout tide 2000",
        master.port
    ))
}

#[tokio::test]
async fn whoever_becomes_the_master_is_found() {
    let mut master = Redis::start();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let sentinel = watch_over(&master).await;
    let nobody = free_port();
    let server = connect(&format!("redis+sentinel://127.0.0.1:{nobody},127.0.0.1:{}/tide", sentinel.port));
    assert_eq!(server.heartbeat(&heartbeat(1, true, 60)).await, Ok(1));
    until(PATIENCE, "Sentinel and the replica know of each other", async || {
        take(&server, "a").await.expect("the master answers");
        sentinel.cli(&["SENTINEL", "MASTER", "tide"]).contains("num-slaves\n1")
            && replica.cli(&["EXISTS", "tidegate:1:{a}:b"]) == "1"
    })
    .await;

    master.kill();
    until(PATIENCE, "the replica is the master, and used", async || take(&server, "a").await.is_ok()).await;
    assert!(replica.cli(&["ROLE"]).starts_with("master"));
    assert_eq!(server.heartbeat(&heartbeat(2, true, 60)).await, Ok(2), "what was there is there");
}

#[tokio::test]
async fn a_master_that_nobody_knows_is_named() {
    let master = Redis::start();
    let sentinel = watch_over(&master).await;
    let server = connect(&format!("redis+sentinel://127.0.0.1:{}/ebb", sentinel.port));
    match server.heartbeat(&heartbeat(1, true, 3)).await {
        Err(LinkError::Down(why)) => assert!(why.contains("it knows no master named \"ebb\""), "{why}"),
        other => panic!("there is no such master: {other:?}"),
    }
}

#[tokio::test]
async fn a_sentinel_may_want_the_password_and_has_no_databases() {
    let master = Redis::start_with(&["--requirepass", "s3cret"]);
    let sentinel = Redis::start_sentinel(&format!(
        "requirepass s3cret\nsentinel monitor tide 127.0.0.1 {} 1\nsentinel auth-pass tide s3cret",
        master.port
    ));
    let server = connect(&format!("redis+sentinel://:s3cret@127.0.0.1:{}/tide/3", sentinel.port));
    assert_eq!(server.heartbeat(&heartbeat(1, true, 60)).await, Ok(1));
    take(&server, "a").await.expect("it was let in");
    assert_eq!(master.cli(&["-a", "s3cret", "-n", "3", "EXISTS", "tidegate:1:{a}:b"]), "1");
}

/// A master and its replica, and three Sentinels of which two can replace it.
struct Watched {
    master: Redis,
    replica: Redis,
    sentinels: Vec<Redis>,
    /// The port of a fourth one, which is not started yet.
    absent: u16,
}

impl Watched {
    async fn start() -> Watched {
        let master = Redis::start_with(&[&["--repl-diskless-sync-delay", "0"][..], &OTHERS].concat());
        let (port, login) = (master.port.to_string(), ["--masteruser", "others", "--masterauth", "pass"]);
        let follow = ["--replicaof", "127.0.0.1", &port];
        let replica = Redis::start_with(&[&follow[..], &login, &OTHERS].concat());
        // Sentinels query for replicas at once, and then only every ten seconds.
        until(PATIENCE, "the replica follows", async || {
            replica.cli(&["INFO", "replication"]).contains("master_link_status:up")
        })
        .await;
        let mut watched = Watched { master, replica, sentinels: Vec::new(), absent: free_port() };
        for _ in 0..3 {
            watched.sentinels.push(Redis::start_sentinel(&watched.config()));
        }
        until(PATIENCE, "Sentinels know the replica, and each other", async || {
            watched.sentinels.iter().all(|sentinel| {
                let told = sentinel.cli(&["SENTINEL", "MASTER", "tide"]);
                told.contains("num-slaves\n1") && told.contains("num-other-sentinels\n2")
            })
        })
        .await;
        watched
    }

    fn config(&self) -> String {
        format!(
            "sentinel monitor tide 127.0.0.1 {} 2\nsentinel auth-user tide others\n\
             sentinel auth-pass tide pass\nsentinel down-after-milliseconds tide 500\n\
             sentinel failover-timeout tide 3000",
            self.master.port
        )
    }

    fn url(&self) -> String {
        let ports = self.sentinels.iter().map(|sentinel| sentinel.port).chain([self.absent]);
        let places = ports.map(|port| format!("127.0.0.1:{port}"));
        format!("redis+sentinel://{}/tide", places.collect::<Vec<_>>().join(","))
    }

    /// Locks Sentinels and the replica out of the master; other clients stay connected.
    fn cut_off_the_master(&mut self) {
        assert_eq!(self.master.cli(&["ACL", "SETUSER", "others", "off"]), "OK");
        // New connections need a password that nobody else has; existing ones of the default user stay.
        assert_eq!(self.master.cli(&["ACL", "SETUSER", "default", "resetpass", ">cut-off"]), "OK");
        self.master.password = Some("cut-off");
        self.master.cli(&["CLIENT", "KILL", "USER", "others"]);
    }

    async fn fails_over(&self) {
        until(PATIENCE, "a failover", async || self.replica.cli(&["ROLE"]).starts_with("master")).await;
    }

    fn calls(&self, server: &Redis) -> u64 {
        server.info("commandstats", "cmdstat_evalsha") + server.info("commandstats", "cmdstat_eval")
    }
}

fn moves(server: &RedisClient) -> u64 {
    server.master_watch().expect("there are Sentinels").moves
}

#[tokio::test]
async fn a_master_that_was_replaced_is_left_although_it_answers() {
    let mut watched = Watched::start().await;
    let server = connect(&watched.url());
    take(&server, "a").await.expect("the master answers");
    watched.cut_off_the_master();
    watched.fails_over().await;
    assert!(watched.master.cli(&["ROLE"]).starts_with("master"), "the old one has not heard of it");
    until(MOVES_WITHIN, "the node goes to the new one", async || {
        // Calls under way during the move are lost, and count as made.
        take(&server, "a").await.is_ok() && moves(&server) == 1
    })
    .await;
    let before = (watched.calls(&watched.master), watched.calls(&watched.replica));
    take(&server, "a").await.expect("the new master answers");
    let after = (watched.calls(&watched.master), watched.calls(&watched.replica));
    assert_eq!(after, (before.0, before.1 + 1), "calls to the old master, and to the new");

    // Only outdated configurations are reported now: they must not lead the client back, even after a reconnect.
    watched.sentinels.iter_mut().for_each(Redis::kill);
    let stale = Redis::start_sentinel_on(watched.absent, &watched.config());
    until(PATIENCE, "only the one with old news is heard", async || {
        server.master_watch().is_some_and(|known| (known.answering, known.sentinels) == (1, 4))
    })
    .await;
    let named = stale.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "tide"]);
    assert!(named.contains(&watched.master.port.to_string()), "{named}");
    watched.replica.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    until(MOVES_WITHIN, "the new master is used", async || take(&server, "a").await.is_ok()).await;
    assert_eq!(moves(&server), 1);
    assert_eq!(watched.calls(&watched.master), before.0, "nothing more is asked of the old master");
}

#[tokio::test]
async fn a_master_that_lost_its_replicas_can_be_made_to_refuse() {
    let mut watched = Watched::start().await;
    for (name, value) in [("min-replicas-to-write", "1"), ("min-replicas-max-lag", "1")] {
        assert_eq!(watched.master.cli(&["CONFIG", "SET", name, value]), "OK");
    }
    // Without any Sentinel, the client stays with its master.
    let server = connect(&watched.url());
    take(&server, "a").await.expect("the master answers");
    watched.sentinels.iter().for_each(|sentinel| signal(sentinel, Signal::STOP));
    watched.cut_off_the_master();
    until(PATIENCE, "the master refuses to write", async || {
        matches!(take(&server, "a").await, Err(LinkError::Refused(why)) if why.starts_with("NOREPLICAS"))
    })
    .await;
    watched.sentinels.iter().for_each(|sentinel| signal(sentinel, Signal::CONT));
}

#[tokio::test]
async fn whoever_is_named_as_the_master_must_be_one() {
    let master = Redis::start();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let sentinel = watch_over(&replica).await;
    let server = connect(&format!("redis+sentinel://127.0.0.1:{}/tide", sentinel.port));
    match server.heartbeat(&heartbeat(1, true, 3)).await {
        Err(LinkError::Down(why)) => assert!(why.contains("it is a replica"), "{why}"),
        other => panic!("there is no master at that place: {other:?}"),
    }
}

#[tokio::test]
async fn a_sentinel_that_permits_little_is_asked_all_the_same() {
    let master = Redis::start();
    let sentinel = Redis::start_sentinel(&format!(
        "user default on nopass -@all +ping +sentinel|get-master-addr-by-name\n\
         sentinel monitor tide 127.0.0.1 {} 1",
        master.port
    ));
    let server = connect(&format!("redis+sentinel://127.0.0.1:{}/tide", sentinel.port));
    assert_eq!(server.heartbeat(&heartbeat(1, true, 60)).await, Ok(1));
}
