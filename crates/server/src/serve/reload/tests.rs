use std::fs;

use super::*;
use crate::identity::Identity;
use crate::settings::Settings;

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
