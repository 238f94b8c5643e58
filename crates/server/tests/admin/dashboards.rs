//! The Grafana dashboards and Prometheus rules in the documentation use only metrics that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate_server::observe::metrics::families::{self, MetricKind};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The words in a text that look like names of our metrics.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("tidegate_") || word.starts_with("process_")).collect()
}

/// Is it a metric, or a part of a histogram?
fn exists(name: &str) -> bool {
    families::ALL.iter().any(|family| match name.strip_prefix(family.name) {
        Some("") => family.kind != MetricKind::Histogram,
        Some("_bucket" | "_sum" | "_count") => family.kind == MetricKind::Histogram,
        _ => false,
    })
}

/// Metrics that are used and do not exist.
fn missing(text: &str) -> Vec<&str> {
    metrics_in(text).into_iter().filter(|name| !exists(name)).collect()
}

#[test]
fn dashboards_and_alerts_ask_for_metrics_that_exist() {
    let mut files = 0;
    for entry in fs::read_dir(docs().join("dashboards")).expect("there are some") {
        let path = entry.expect("it can be listed").path();
        let text = fs::read_to_string(&path).expect("it is text");
        assert!(!metrics_in(&text).is_empty(), "{}: asks for nothing", path.display());
        assert_eq!(missing(&text), Vec::<&str>::new(), "{}", path.display());
        files += 1;
    }
    assert_eq!(files, 2, "a dashboard and the alerts");
    assert_eq!(missing("tidegate_nonsense_total"), ["tidegate_nonsense_total"], "the test can fail");
}

#[test]
fn the_dashboard_is_one() {
    let text = fs::read_to_string(docs().join("dashboards/tidegate.json")).expect("it is there");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("it has panels");
    assert!(panels.len() >= 8);
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().expect("each has a number")), "{panel}");
        assert!(panel["type"] == "row" || !panel["targets"][0]["expr"].is_null(), "{panel}");
    }
}

#[test]
fn no_panel_lies_on_another() {
    let text = fs::read_to_string(docs().join("dashboards/tidegate.json")).expect("it is there");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let mut taken = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("it has panels") {
        let number = |name: &str| panel["gridPos"][name].as_u64().expect("each has a place");
        let (left, top) = (number("x"), number("y"));
        assert!(left + number("w") <= 24, "{panel}");
        for (x, y) in (left..left + number("w")).flat_map(|x| (top..top + number("h")).map(move |y| (x, y))) {
            assert!(taken.insert((x, y)), "something else is at {x}, {y}: {panel}");
        }
    }
}

#[test]
fn what_operators_watch_has_a_panel_and_what_they_must_know_an_alert() {
    let read = |name: &str| fs::read_to_string(docs().join("dashboards").join(name)).expect("it is there");
    let (dashboard, alerts) = (read("tidegate.json"), read("alerts.yaml"));
    let (shown, told) = (metrics_in(&dashboard), metrics_in(&alerts));
    for name in [
        "tidegate_decisions_by_reason_total",
        "tidegate_route_decisions_total",
        "tidegate_no_limit_total",
        "tidegate_tenant_contention_total",
        "tidegate_burst_actions_total",
        "tidegate_trust_score_bucket",
        "tidegate_store_call_seconds_bucket",
    ] {
        assert!(shown.contains(name), "no panel shows {name}");
    }
    for name in [
        "tidegate_decisions_by_reason_total",
        "tidegate_tokens_remaining_ratio_bucket",
        "tidegate_store_call_seconds_bucket",
        "tidegate_store_fallback_decisions_total",
    ] {
        assert!(told.contains(name), "no alert is about {name}");
    }
}

#[test]
fn the_guide_names_metrics_that_exist() {
    for guide in ["observability.md", "guides/tuning.md"] {
        let text = fs::read_to_string(docs().join(guide)).expect("it is there");
        let is_family = |name: &&str| families::ALL.iter().any(|family| family.name == *name);
        let named: Vec<&str> = missing(&text).into_iter().filter(|name| !is_family(name)).collect();
        assert_eq!(named, Vec::<&str>::new(), "{guide}");
    }
}
