//! One connection, shared by many callers.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{CAPACITY, connect, connect_within, left, take};
use super::process::Redis;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_at_once_share_reads_and_writes() {
    const CALLERS: u32 = 200;
    const EACH: u32 = 20;
    let redis = Redis::start();
    let server = Arc::new(connect_within(&redis.url(), Duration::from_secs(5)));
    take(&server, "warm").await.expect("the server answers");
    let reads_before = redis.info("stats", "total_reads_processed");

    let begun = tokio::time::Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let server = Arc::clone(&server);
            tokio::spawn(async move {
                for _ in 0..EACH {
                    take(&server, &format!("c{caller}")).await.expect("the server answers");
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no caller panics");
    }
    let spent = begun.elapsed();
    let calls = CALLERS * EACH;
    println!("{calls} calls in {spent:?}");
    let reads = redis.info("stats", "total_reads_processed") - reads_before;
    assert!(reads < u64::from(calls) / 4, "{reads} reads for {calls} calls: they did not travel together");
    for caller in 0..CALLERS {
        assert_eq!(left(&server, &format!("c{caller}")).await, CAPACITY - EACH);
    }
    assert_eq!(redis.info("clients", "connected_clients"), 2, "the shared connection, and that of `INFO`");
}

#[test]
fn a_link_may_be_used_from_a_runtime_that_is_not_its_own() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let home = runtime();
    let redis = Redis::start();
    let server = Arc::new(home.block_on(async { connect(&redis.url()) }));
    let (done, wait) = tokio::sync::oneshot::channel::<()>();
    let visitors: Vec<_> = (0..3)
        .map(|visitor| {
            let server = Arc::clone(&server);
            std::thread::spawn(move || {
                runtime().block_on(async {
                    for _ in 0..50 {
                        take(&server, &format!("v{visitor}")).await.expect("the server answers");
                    }
                    left(&server, &format!("v{visitor}")).await
                })
            })
        })
        .collect();
    let joined = std::thread::spawn(move || {
        let left: Vec<u32> = visitors.into_iter().map(|visitor| visitor.join().expect("no panic")).collect();
        drop(done);
        left
    });
    // The connection is a task of this runtime, and only runs while the runtime does.
    home.block_on(async { wait.await.expect_err("the sender is dropped without sending") });
    assert_eq!(joined.join().expect("no panic"), [CAPACITY - 50; 3]);
}
