//! Events, the audit and violations by the admin API and by the commands.

use serde_json::Value;
use tidegate_database::{AuditEntry, DatabaseKind, PersonalData, UnixMillis, Violation};

use super::place::{Place, on_both};
use super::{admin_token, get, on_database, record_violations};
use crate::support::home::Home;
use crate::support::server::{Server, run, tidegate};

on_both!(
    lists_are_newest_first_filtered_paged_and_exported,
    a_changed_row_is_found_by_the_route_and_by_the_command,
    a_persons_data_are_erased_and_the_audit_still_verifies
);

fn at(seconds: i64) -> UnixMillis {
    UnixMillis::new(1_900_000_000_000 + seconds * 1_000)
}

fn entry(number: i64) -> AuditEntry {
    AuditEntry {
        time: at(number),
        event: "invalid_credentials".into(),
        severity: "warning".into(),
        actor: Some(format!("token:{number}")),
        count: 1,
        first: at(number),
        last: at(number),
        personal: PersonalData {
            user_id: Some(format!("user-{number}")),
            ip: Some("192.0.2.7".into()),
            tenant: Some("acme".into()),
            detail: Some(r#"{"changes":[]}"#.into()),
            ..PersonalData::default()
        },
        ..AuditEntry::default()
    }
}

fn violation(number: i64) -> Violation {
    Violation {
        event: "rate_limit_exceeded".into(),
        user_id: Some(format!("user-{number}")),
        ip: Some([192, 0, 2, 8].into()),
        requested_at: at(number),
        limit_name: Some("per-user".into()),
        kind: Some("token_bucket".into()),
        tenant: Some("umbrella".into()),
        count: 3,
        first: at(number),
        last: at(number),
        ..Violation::default()
    }
}

/// A database of ten entries and ten violations.
fn filled(kind: DatabaseKind) -> Place {
    let place = Place::new(kind);
    on_database(&place.url, async |database| {
        database.append((1..=10).map(entry).collect()).await.unwrap();
        record_violations(database, (1..=10).map(violation).collect()).await;
    });
    place
}

fn items(body: &Value) -> &Vec<Value> {
    body["items"].as_array().unwrap_or_else(|| panic!("{body}"))
}

fn lists_are_newest_first_filtered_paged_and_exported(kind: DatabaseKind) {
    let place = filled(kind);
    let server = place.start(&[]);
    let token = admin_token(&server);
    let list = |path: &str| {
        let answer = get(&server, &token, path, "application/json");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    };
    let count = |path: &str| items(&list(path)).len();
    let denials = list("/violations");
    assert_eq!(items(&denials).len(), 10);
    let newest = &items(&denials)[0];
    assert_eq!((&newest["user"], &newest["limit"]), (&"user-10".into(), &"per-user".into()));
    assert_eq!(
        (&newest["time"], &newest["severity"]),
        (&"2030-03-17T17:46:50.000Z".into(), &"warning".into())
    );
    assert!(newest.get("seq").is_none() && newest.get("client").is_none(), "{newest}");
    let security = list("/audit?kind=invalid_credentials");
    assert_eq!(items(&security).len(), 10);
    assert_eq!(
        (&items(&security)[0]["seq"], &items(&security)[0]["actor"]),
        (&10.into(), &"token:10".into())
    );
    assert_eq!(items(&security)[0]["detail"]["changes"], Value::Array(vec![]));

    for (filter, found) in [
        ("user=user-3", 2),
        ("ip=192.0.2.7", 10),
        ("ip=::ffff:192.0.2.8", 10),
        ("tenant=umbrella", 10),
        ("limit_name=per-user", 10),
        ("kind=token_bucket", 10),
        ("kind=rate_limit_exceeded", 10),
        ("actor=token:4", 1),
        ("q=USER-7", 2),
        ("since=2030-03-17T17:46:49Z", 4),
        ("since=2030-03-17T17:46:49Z&until=2030-03-17T17:46:50Z", 2),
        ("user=nobody", 0),
    ] {
        assert_eq!(count(&format!("/events?{filter}")), found, "{filter}");
    }
    // Pages: every row once, in one order.
    let (mut seen, mut path) = (Vec::new(), "/events?limit=7&since=2030-01-01T00:00:00Z".to_owned());
    loop {
        let page = list(&path);
        seen.extend(items(&page).iter().map(|item| (item["time"].to_string(), item["event"].to_string())));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/events?limit=7&since=2030-01-01T00:00:00Z&cursor={next}");
    }
    assert_eq!(seen.len(), 20);
    assert!(seen.windows(2).all(|pair| pair[0].0 >= pair[1].0), "{seen:?}");
    let csv = get(&server, &token, "/violations?limit=2", "text/csv");
    assert!(csv.body.starts_with("actor,client,count,detail,"), "{}", csv.body);
    assert_eq!(csv.body.lines().count(), 3);
    let lines = get(&server, &token, "/violations", "application/x-ndjson");
    assert_eq!(lines.body.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count(), 10);
    for wrong in
        ["/events?ip=x", "/events?since=yesterday", "/events?cursor=x", "/audit?other=1", "/events?limit=0"]
    {
        assert_eq!(get(&server, &token, wrong, "*/*").status, 400, "{wrong}");
    }
    assert_eq!(get(&server, "wrong", "/audit", "*/*").status, 401);
}

fn a_changed_row_is_found_by_the_route_and_by_the_command(kind: DatabaseKind) {
    let place = filled(kind);
    let server = place.start(&[]);
    let token = admin_token(&server);
    let verify = || get(&server, &token, "/audit/verify", "*/*").json();
    let intact = verify();
    assert_eq!(
        (&intact["valid"], &intact["first"], &intact["broken"]),
        (&true.into(), &1.into(), &Value::Null)
    );
    let command = place.run(&["audit", "verify"]);
    assert_eq!(command.code, Some(0), "{}", command.err);
    assert!(command.out.contains("entries are as they were written"), "{}", command.out);
    assert!(command.out.contains(intact["hash"].as_str().expect("a hash")), "{}", command.out);

    place.tamper("UPDATE audit_entries SET actor = 'somebody else' WHERE seq = 7");
    let broken = verify();
    assert_eq!(
        (&broken["valid"], &broken["broken"]["seq"], &broken["last"]),
        (&false.into(), &7.into(), &6.into())
    );
    let command = place.run(&["audit", "verify"]);
    assert_eq!(command.code, Some(1));
    assert!(command.err.contains("the audit entry 7 was changed"), "{}", command.err);
    let json = place.run(&["audit", "verify", "--format", "json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!((&json["valid"], &json["broken"]["seq"]), (&false.into(), &7.into()));
}

fn a_persons_data_are_erased_and_the_audit_still_verifies(kind: DatabaseKind) {
    let place = filled(kind);
    let refused = place.run(&["audit", "erase", "--user", "user-3"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("add --yes"), "{}", refused.err);
    let erased = place.run(&["audit", "erase", "--user", "user-3", "--yes"]);
    assert_eq!((erased.code, erased.out.as_str()), (Some(0), "erased the data of user-3 in 2 records\n"));
    let again = place.run(&["audit", "erase", "--user", "user-3", "--yes"]);
    assert!(again.out.contains("in 0 records"), "{}", again.out);
    let verified = place.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.err);
    assert!(verified.out.contains("of 1 the personal data were erased"), "{}", verified.out);

    let server = place.start(&[]);
    let token = admin_token(&server);
    let all = get(&server, &token, "/events?limit=1000", "*/*");
    assert!(!all.body.contains("user-3\""), "{}", all.body);
    let third = items(&all.json()).iter().find(|item| item["seq"] == 3).cloned().expect("the entry is there");
    assert!(third.get("erased").is_some() && third.get("ip").is_none(), "{third}");
    assert_eq!((&third["event"], &third["count"]), (&"invalid_credentials".into(), &1.into()));
}

#[test]
fn commands_say_what_is_missing() {
    let home = Home::new();
    let nowhere = run(tidegate(&["audit", "verify", "--data", &home.arg("data")]));
    assert_eq!(nowhere.code, Some(2));
    assert!(nowhere.err.contains("there is no database in"), "{}", nowhere.err);
    let unnamed = run(tidegate(&["audit", "verify"]));
    assert_eq!(unnamed.code, Some(2));
    assert!(unnamed.err.contains("--data DIR"), "{}", unnamed.err);
    // Without a database the routes say how to get one.
    let server = Server::start(&[]);
    let token = admin_token(&server);
    for path in ["/events", "/audit", "/violations", "/audit/verify"] {
        let answer = get(&server, &token, path, "*/*");
        assert_eq!(answer.status, 409, "{path}");
        assert!(answer.body.contains("--data DIR"), "{}", answer.body);
    }
}
