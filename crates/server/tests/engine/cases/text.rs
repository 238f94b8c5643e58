//! The exact bytes that are read and written.

use crate::engine::run_text;

const POLICY: &str = r#"{"version": 1, "limits": [
    {"name": "per-user", "key": ["user"], "sustained": {"rate": 1, "window": "minute"}}]}"#;

#[test]
fn a_decision_is_written_as_the_contract_shows() {
    let trace = "{\"at_ms\": 0.25, \"user\": \"1\"}\n{\"at_ms\": 1000, \"user\": \"1\"}\n";
    let decisions = run_text(POLICY, trace).unwrap();
    let expected = [
        r#"{"at_ms":0.25,"allowed":true,"reason":"ok","limit":1,"remaining":0,"reset_after_ms":60000,"retry_after":0,"retry_after_ms":0,"violated_rule":null,"violated_tier":null,"degraded":false,"shadow_denied":[],"limits":[{"name":"per-user","tier":"user","allowed":true,"limit":1,"remaining":0,"reset_after_ms":60000,"retry_after_ms":0}]}"#,
        r#"{"at_ms":1000,"allowed":false,"reason":"token_bucket_exceeded","limit":1,"remaining":0,"reset_after_ms":59001,"retry_after":60,"retry_after_ms":59001,"violated_rule":"per-user","violated_tier":"user","degraded":false,"shadow_denied":[],"limits":[{"name":"per-user","tier":"user","allowed":false,"limit":1,"remaining":0,"reset_after_ms":59001,"retry_after_ms":59001}]}"#,
    ];
    assert_eq!(decisions.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_bad_line_stops_the_run_and_is_named() {
    let time_goes_back = "{\"at_ms\": 5}\n{\"at_ms\": 4}\n";
    let unknown_member = "{\"at_ms\": 5}\n{\"at_ms\": 6, \"uzer\": \"1\"}\n";
    for trace in [time_goes_back, unknown_member, "{\"at_ms\": 5}\n{\"at_ms\": 6\n"] {
        let problem = run_text(POLICY, trace).unwrap_err();
        assert!(problem.contains('2'), "{problem}");
    }
}

#[test]
fn a_user_as_a_number_is_the_same_user() {
    let trace = "{\"at_ms\": 0, \"user\": 42}\n{\"at_ms\": 0, \"user\": \"42\"}\n";
    let decisions = run_text(POLICY, trace).unwrap();
    let allowed: Vec<bool> =
        decisions.lines().map(|line| line.contains("\"allowed\":true,\"reason\"")).collect();
    assert_eq!(allowed, [true, false], "{decisions}");
    for odd in ["4.2", "true", "[42]"] {
        let problem = run_text(POLICY, &format!("{{\"at_ms\": 0, \"user\": {odd}}}\n")).unwrap_err();
        assert!(problem.contains("`user`"), "{problem}");
    }
}
