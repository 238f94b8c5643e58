//! Every example policy is valid, and its decisions match the kept file.

use std::fs;

use tidegate_policy::Policy;
use tidegate_server::replay::run_text;

use super::{compare, examples};

#[test]
fn every_example_decides_as_kept() {
    let list = fs::read_to_string(examples().join("README.md")).expect("there is a list");
    let mut seen = 0;
    for entry in fs::read_dir(examples()).expect("there are examples") {
        let directory = entry.expect("it can be listed").path();
        if !directory.is_dir() {
            continue;
        }
        seen += 1;
        let name = directory.file_name().and_then(|name| name.to_str()).expect("names are text");
        assert!(list.contains(&format!("[{name}]({name}/policy.yaml)")), "{name} is not in the list");
        let read = |file: &str| {
            fs::read_to_string(directory.join(file)).unwrap_or_else(|e| panic!("{name}/{file}: {e}"))
        };
        let (policy, trace) = (read("policy.yaml"), read("trace.jsonl"));
        let parsed = Policy::parse(&policy).unwrap_or_else(|problems| panic!("{name}: {problems}"));
        let warned: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
        // These show warnings on purpose: of rates and bursts, and of a limit that would loosen its parent's.
        let expected = match name {
            "overcommitted-budget" => 2,
            "unlisted-tenants" => 1,
            _ => 0,
        };
        assert_eq!(warned.len(), expected, "{name}: {warned:?}");
        let decisions = run_text(&policy, &trace).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(decisions.lines().count(), trace.lines().count(), "{name}");
        assert!(decisions.contains("\"allowed\":true"), "{name} admits something");
        assert!(decisions.contains("\"allowed\":false") || decisions.contains("queued_ms"), "{name} bites");
        compare(&directory.join("decisions.jsonl"), &decisions);
    }
    assert!(seen >= 15, "only {seen} examples");
}
