//! `CL.THROTTLE` and `TG.CHECK`, number by number.

use super::wire::{Answer, bulk, shared};

/// Compares the reply to `CL.THROTTLE`; times may be up to a minute less, since the machine may be slow.
fn throttled(answer: &Answer, expected: [i64; 5]) {
    let seen = answer.integers();
    let near = |seen: i64, expected: i64| {
        seen == expected || (expected > 60 && (expected - 60..expected).contains(&seen))
    };
    let same = seen[..3] == expected[..3] && near(seen[3], expected[3]) && near(seen[4], expected[4]);
    assert!(same, "{seen:?} instead of {expected:?}");
}

#[test]
fn the_example_of_redis_cell_has_its_answer() {
    let mut client = shared();
    assert_eq!(client.say("CL.THROTTLE user123 15 30 60").integers(), [0, 16, 15, -1, 2]);
}

#[test]
fn a_bucket_runs_dry_and_says_when_to_come_back() {
    let mut client = shared();
    for left in [2, 1, 0] {
        throttled(&client.say("CL.THROTTLE dry 2 1 1000"), [0, 3, left, -1, 1_000 * (3 - left)]);
    }
    throttled(&client.say("cl.throttle dry 2 1 1000 1"), [1, 3, 0, 1_000, 3_000]);
    throttled(&client.say("CL.THROTTLE dry 2 1 1000 0"), [0, 3, 0, -1, 3_000]);
    throttled(&client.say("CL.THROTTLE dry 2 1 1000 2"), [1, 3, 0, 2_000, 3_000]);
    // Different numbers identify a different bucket.
    throttled(&client.say("CL.THROTTLE dry 2 1 999"), [0, 3, 2, -1, 999]);
}

#[test]
fn what_can_never_be_has_no_time_and_takes_nothing() {
    let mut client = shared();
    throttled(&client.say("CL.THROTTLE never 4 1 1000 2"), [0, 5, 3, -1, 2_000]);
    for quantity in ["6", "4294967295", "4294967296", "9223372036854775807"] {
        let answer = client.ask(&["CL.THROTTLE", "never", "4", "1", "1000", quantity]);
        throttled(&answer, [1, 5, 3, -1, 2_000]);
    }
    throttled(&client.say("CL.THROTTLE never 4 1 1000 0"), [0, 5, 3, -1, 2_000]);
}

#[test]
fn keys_may_be_any_bytes_but_none() {
    let mut client = shared();
    let keys: [&[u8]; 4] = [b"\0", b"\0\0", b"\xff\r\n$1\r\n", &[b'k'; 4_096]];
    for key in keys {
        let mut ask = || client.ask(&[b"CL.THROTTLE", key, b"1", b"1", b"1000"]).integers();
        assert_eq!([ask()[2], ask()[2], ask()[0]], [1, 0, 1], "each has a bucket of its own");
    }
    assert_eq!(client.ask(&["CL.THROTTLE", "", "1", "1", "1"]).error(), "ERR the key is empty");
}

#[test]
fn numbers_that_make_no_limit_are_errors() {
    let mut client = shared();
    for (line, said) in [
        (
            "CL.THROTTLE k 1 1",
            "ERR wrong number of arguments; usage: CL.THROTTLE key max_burst count period [quantity]",
        ),
        ("CL.THROTTLE k 1 1 1 1 1", "ERR wrong number of arguments"),
        ("CL.THROTTLE k x 1 1", "ERR max_burst is not an integer: 'x'"),
        ("CL.THROTTLE k 1 1.5 1", "ERR count is not an integer: '1.5'"),
        ("CL.THROTTLE k 1 1 NaN", "ERR period is not an integer: 'NaN'"),
        ("CL.THROTTLE k 1 1 1 1e400", "ERR quantity is not an integer: '1e400'"),
        ("CL.THROTTLE k 1 0 1", "ERR zero rates are not supported: count must be at least 1"),
        ("CL.THROTTLE k 1 1 0", "ERR zero rates are not supported: period must be at least 1"),
        ("CL.THROTTLE k -1 1 1", "ERR max_burst is negative: '-1'"),
        ("CL.THROTTLE k 1 1 1 -1", "ERR quantity is negative: '-1'"),
        ("CL.THROTTLE k 4294967295 1 1", "ERR max_burst is out of range: '4294967295'"),
        ("CL.THROTTLE k 9223372036854775807 1 1", "ERR max_burst is out of range"),
        ("CL.THROTTLE k 1 1 1 9223372036854775808", "ERR quantity is out of range"),
        ("CL.THROTTLE k 1 1 9223372036854775807", "ERR period is out of range"),
        ("CL.THROTTLE k 1 9223372036854775807 1", "ERR 9223372036854775807 per 1s is faster"),
        ("CL.THROTTLE k 1 1 99999999", "ERR 1 per 99999999s is slower"),
        ("CL.THROTTLE k 4294967294 1 86400", "ERR a capacity of 4294967295 takes more than 200 years"),
    ] {
        let answer = client.say(line);
        assert!(answer.error().starts_with(said), "{line}: {answer:?}");
    }
    assert_eq!(client.say("PING"), Answer::Word("PONG".into()), "the connection is still there");
}

const DAY_MS: i64 = 86_400_000;
const MINUTE_MS: i64 = 60_000;

/// Compares the reply to `TG.CHECK`; times may be up to a minute less.
fn checked(answer: &Answer, expected: [i64; 5], rule: Option<&str>) {
    let Answer::Array(items) = answer else { panic!("no array: {answer:?}") };
    let [numbers @ .., rule_seen, tag_seen] = &items[..] else { panic!("not seven of them: {items:?}") };
    assert_eq!((items.len(), tag_seen), (7, &Answer::Null), "nothing is degraded");
    let seen = Answer::Array(numbers.to_vec()).integers();
    let near = |place: usize| {
        let (seen, expected) = (seen[place], expected[place]);
        seen == expected || (expected > 0 && (expected - MINUTE_MS..expected).contains(&seen))
    };
    assert!(seen[..3] == expected[..3] && near(3) && near(4), "{seen:?} instead of {expected:?}");
    assert_eq!(*rule_seen, rule.map_or(Answer::Null, bulk));
}

#[test]
fn a_request_is_decided_by_the_policy() {
    let mut client = shared();
    for taken in 1..=3 {
        checked(&client.say("TG.CHECK user u1"), [1, 3, 3 - taken, 0, taken * DAY_MS], None);
    }
    checked(&client.say("TG.CHECK user u1"), [0, 3, 0, DAY_MS, 3 * DAY_MS], Some("per-user"));
    // A cost above the capacity, a request without limits, and a blocked client.
    checked(&client.say("TG.CHECK user u2 cost 4"), [0, 3, 3, -1, 0], Some("per-user"));
    checked(&client.say("TG.CHECK plan free"), [1, -1, -1, 0, -1], None);
    checked(&client.say("TG.CHECK user 666"), [0, -1, -1, -1, -1], Some("block"));
}

#[test]
fn a_degraded_request_is_told_its_tag() {
    let mut client = shared();
    let mut tag = || match client.say("TG.CHECK client degrading plan marked") {
        Answer::Array(items) => (items[0].clone(), items[5].clone(), items[6].clone()),
        other => panic!("no array: {other:?}"),
    };
    assert_eq!(tag(), (Answer::Integer(1), Answer::Null, Answer::Null));
    assert_eq!(tag(), (Answer::Integer(1), Answer::Null, bulk("slow")));
}

#[test]
fn every_kind_of_field_counts() {
    let mut client = shared();
    let mut ask = |path: &str, key: &str, q: &str| {
        let args = ["TG.CHECK", "tenant", "t", "path", path, "header:X-Key", key, "query:q", q];
        let Answer::Array(items) = client.ask(&args) else { panic!("no array") };
        items[2].clone()
    };
    assert_eq!(ask("/exports/1", "a", "x y&z"), Answer::Integer(3), "the policy's cost is 2");
    assert_eq!(ask("/exports/2", "a", "x y&z"), Answer::Integer(1));
    assert_eq!(ask("/exports/2", "b", "x y&z"), Answer::Integer(3));
    assert_eq!(ask("/exports/2", "a", "x y"), Answer::Integer(3));
    assert_eq!(ask("/imports/2", "a", "x y&z"), Answer::Integer(-1));
}

#[test]
fn nothing_waits_in_a_queue_here() {
    let mut client = shared();
    checked(&client.say("TG.CHECK client q plan waiting"), [1, 1, 0, 0, DAY_MS], None);
    checked(&client.say("TG.CHECK client q plan waiting"), [0, 1, 0, DAY_MS, DAY_MS], Some("waits"));
}

#[test]
fn fields_that_make_no_request_are_errors() {
    let mut client = shared();
    for (line, said) in [
        ("TG.CHECK", "ERR wrong number of arguments; usage: TG.CHECK field value [field value ...]"),
        ("TG.CHECK user", "ERR wrong number of arguments"),
        ("TG.CHECK user a plan", "ERR field 'plan' has no value"),
        ("TG.CHECK usr a", "ERR unknown field 'usr'; did you mean 'user'?"),
        ("TG.CHECK user a cost -1", "ERR 'cost': '-1' is not an integer from 0 to 4294967295"),
        ("TG.CHECK user a cost NaN", "ERR 'cost': 'NaN' is not"),
        ("TG.CHECK user a trust 1e400", "ERR 'trust': '1e400' is not"),
    ] {
        let answer = client.say(line);
        assert!(answer.error().starts_with(said), "{line}: {answer:?}");
    }
    assert_eq!(client.ask(&[&b"TG.CHECK"[..], b"user", b"\xff"]).error(), "ERR '\\xff' is not UTF-8");
}

#[test]
fn null_is_the_versions_own() {
    let mut client = shared();
    client.say("HELLO 3");
    client.send(b"TG.CHECK plan free\r\n");
    checked(&client.answer(), [1, -1, -1, 0, -1], None);
    client.send(b"CLIENT GETNAME\r\n");
    let mut null = [0; 3];
    std::io::Read::read_exact(&mut client.stream, &mut null).expect("three bytes");
    assert_eq!(null, *b"_\r\n");
}

#[test]
fn a_mapped_address_is_the_address_it_maps() {
    let mut client = shared();
    let mut left = |ip: &str| client.ask(&["TG.CHECK", "ip", ip, "path", "/addresses"]);
    for (ip, expected) in [("203.0.113.77", 2), ("::ffff:203.0.113.77", 1), ("::ffff:cb00:714d", 0)] {
        let Answer::Array(parts) = left(ip) else { panic!("{ip}") };
        assert_eq!((&parts[0], &parts[2]), (&Answer::Integer(1), &Answer::Integer(expected)), "{ip}");
    }
    for ip in ["198.51.100.9", "::ffff:198.51.100.9"] {
        let Answer::Array(parts) = left(ip) else { panic!("{ip}") };
        assert_eq!((&parts[0], &parts[5]), (&Answer::Integer(0), &bulk("block")), "{ip}");
    }
}
