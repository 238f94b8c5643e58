use std::fs;

use tidegate::engine::trust::TrustOptions;

use super::*;
use crate::identity::Identity;
use crate::settings::{Settings, TrustSettings};

const POLICY: &str = "version: 1\nlimits: []\n";

/// Checks twice: a changed file is read once two checks see it the same.
fn check_twice(reload: &mut Reload) {
    reload.reload_changed();
    reload.reload_changed();
}

#[test]
fn a_touch_changes_nothing_and_mends_what_was_wrong() {
    let path = std::env::temp_dir().join(format!("tidegate-reload-{}.yaml", std::process::id()));
    fs::write(&path, POLICY).unwrap();
    let settings = Settings { max_keys: 100, ..Settings::default() };
    let identity = Identity::new(&settings).unwrap();
    let (rules, _) = policy_file::compile(POLICY, &settings, tidegate::Nanos::ZERO).unwrap();
    let node = Arc::new(Node::new(settings, rules, identity).unwrap());
    let watched = WatchedFiles::new(vec![path.clone()]);
    let policy = PolicyFile { path: path.clone(), watched, text: POLICY.to_owned() };
    let mut reload = Reload::new(Arc::clone(&node), Some(policy), None, (None, None));
    let version = || node.limiter().version();

    fs::write(&path, "version: 1\nlimts: []\n").unwrap();
    check_twice(&mut reload);
    assert!(node.lifecycle().problem(ReloadedPart::Policy).is_some_and(|problem| problem.contains("limts")));
    fs::write(&path, POLICY).unwrap();
    check_twice(&mut reload);
    assert_eq!(node.lifecycle().problem(ReloadedPart::Policy), None, "it was read");
    assert_eq!(version(), 1, "the same text is not loaded again");
    fs::write(&path, format!("# more\n{POLICY}")).unwrap();
    check_twice(&mut reload);
    assert_eq!(version(), 2);
    reload.reload_all();
    assert_eq!(version(), 3, "`reload_all` reads unchanged files too");
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_changed_trust_file_is_used_and_a_bad_one_is_not() {
    let path = std::env::temp_dir().join(format!("tidegate-trust-{}.yaml", std::process::id()));
    fs::write(&path, "users: []\n").unwrap();
    let trust = TrustSettings { file: Some(path.clone()), options: TrustOptions::default() };
    let settings = Settings { trust: Some(trust), max_keys: 100, ..Settings::default() };
    let identity = Identity::new(&settings).unwrap();
    let (rules, _) = policy_file::compile(POLICY, &settings, tidegate::Nanos::ZERO).unwrap();
    let node = Arc::new(Node::new(settings, rules, identity).unwrap());
    let watched = Reload::watch_trust(node.settings().trust.as_ref());
    let mut reload = Reload::new(Arc::clone(&node), None, None, (None, None)).watching_trust(watched);
    let score = || node.limiter().trust_book().unwrap().report("42", node.clock().wall()).score.total;
    let problem = || node.lifecycle().problem(ReloadedPart::Trust);

    assert_eq!(score(), 0);
    fs::write(&path, "users: [{ user: 42, email_verified: true }]\n").unwrap();
    check_twice(&mut reload);
    assert_eq!((score(), problem()), (200_000, None));
    fs::write(&path, "users: [{ user: 42, email_verifed: true }]\n").unwrap();
    check_twice(&mut reload);
    assert_eq!(score(), 200_000, "the last good one stays");
    assert!(problem().is_some_and(|problem| problem.contains("email_verifed") && problem.contains(":1:")));
    let page = crate::observe::metrics_page(&node);
    assert!(page.contains("tidegate_file_reload_failures_total{file=\"trust\"} 1"), "{page}");
    fs::remove_file(&path).unwrap();
    check_twice(&mut reload);
    assert!(problem().is_some_and(|problem| problem.contains("cannot read")));
    fs::write(&path, "users: [{ user: 42, success_rate: 0.5 }]\n").unwrap();
    reload.reload_all();
    assert_eq!((score(), problem()), (250_000, None));
    fs::remove_file(&path).unwrap();
}
