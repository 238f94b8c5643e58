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
fn the_guide_names_metrics_that_exist() {
    let text = fs::read_to_string(docs().join("observability.md")).expect("it is there");
    let named: Vec<&str> = missing(&text)
        .into_iter()
        .filter(|name| !families::ALL.iter().any(|family| family.name == *name))
        .collect();
    assert_eq!(named, Vec::<&str>::new());
}
