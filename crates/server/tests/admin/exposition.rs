//! A strict parser of the Prometheus text format, which panics on anything invalid.

use std::collections::{BTreeMap, HashMap, HashSet};

/// A sample: the labels, sorted, and the value.
type Sample = (BTreeMap<String, String>, f64);

/// A metric with all its samples, those of a histogram by suffix.
#[derive(Debug, Default)]
pub(crate) struct ExposedFamily {
    pub(crate) kind: String,
    pub(crate) samples: HashMap<String, Vec<Sample>>,
}

/// A parsed page.
#[derive(Debug)]
pub(crate) struct Page(pub(crate) HashMap<String, ExposedFamily>);

impl Page {
    /// The value of a sample with exactly these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let suffix = ["_bucket", "_sum", "_count"]
            .into_iter()
            .find(|suffix| name.strip_suffix(suffix).is_some_and(|family| self.0.contains_key(family)));
        let family = suffix.and_then(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        let family = self.0.get(family).unwrap_or_else(|| panic!("no metric {family}"));
        let wanted: BTreeMap<String, String> =
            labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let samples = family.samples.get(suffix.unwrap_or("")).into_iter().flatten();
        let found = samples.filter(|(labels, _)| *labels == wanted).map(|(_, value)| *value).next();
        found.unwrap_or_else(|| panic!("no sample {name} {labels:?}"))
    }

    /// Parses a page.
    pub(crate) fn parse(text: &str) -> Page {
        assert!(text.ends_with('\n'), "the last line must end");
        let mut families: HashMap<String, ExposedFamily> = HashMap::new();
        let (mut helped, mut seen) = (HashSet::new(), HashSet::new());
        let mut current = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a name and a help text");
                assert!(!help.is_empty() && helped.insert(name.to_owned()), "{line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a name and a type");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert!(helped.contains(name), "{name} has no help before its type");
                current = name.to_owned();
                let family = ExposedFamily { kind: kind.to_owned(), ..ExposedFamily::default() };
                assert!(families.insert(current.clone(), family).is_none(), "{name} comes twice");
            } else {
                let (name, labels, value) = sample(line);
                let family = families.get_mut(&current).unwrap_or_else(|| panic!("no type before {line}"));
                let suffix =
                    name.strip_prefix(&current).unwrap_or_else(|| panic!("{line} is not of {current}"));
                let allowed: &[&str] =
                    if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                assert!(allowed.contains(&suffix), "{line}");
                assert!(seen.insert((name.to_owned(), labels.clone())), "{line} comes twice");
                assert!(family.kind == "gauge" || value >= 0.0, "{line}");
                family.samples.entry(suffix.to_owned()).or_default().push((labels, value));
            }
        }
        families.iter().filter(|(_, family)| family.kind == "histogram").for_each(|(name, family)| {
            check_histogram(name, family);
        });
        Page(families)
    }
}

fn sample(line: &str) -> (&str, BTreeMap<String, String>, f64) {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line:?}"));
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line:?}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {line:?}"));
            assert!(is_name(label), "{line:?}");
            let (value, after) = quoted(after);
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line:?}");
            match after.split_at(1) {
                (",", more) => rest = more,
                ("}", end) => break rest = end,
                _ => panic!("neither comma nor brace: {line:?}"),
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no space before the value: {line:?}"));
    assert!(value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'), "a plain decimal: {line:?}");
    (name, labels, value.parse().unwrap_or_else(|error| panic!("{error}: {line:?}")))
}

/// The text up to the closing quote, unescaped, and what follows it.
fn quoted(text: &str) -> (String, &str) {
    let (mut value, mut letters) = (String::new(), text.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => match letters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, letter @ ('"' | '\\'))) => value.push(letter),
                other => panic!("no escape: {other:?}"),
            },
            _ => value.push(letter),
        }
    }
    panic!("it does not end: {text:?}")
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Checks that the buckets of a histogram grow, end with `+Inf`, and agree with the count.
fn check_histogram(name: &str, family: &ExposedFamily) {
    let mut series: HashMap<BTreeMap<String, String>, Vec<(f64, f64)>> = HashMap::new();
    for (labels, value) in family.samples.get("_bucket").into_iter().flatten() {
        let mut labels = labels.clone();
        let bound = labels.remove("le").unwrap_or_else(|| panic!("{name}: a bucket without bound"));
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("a number") };
        series.entry(labels).or_default().push((bound, *value));
    }
    for (labels, buckets) in series {
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name}{labels:?}: {buckets:?}");
        let last = buckets.last().expect("there is one");
        assert_eq!(last.0, f64::INFINITY, "{name}{labels:?}");
        let of = |suffix: &str| {
            let mut samples = family.samples[suffix].iter().filter(|(found, _)| *found == labels);
            samples.next().unwrap_or_else(|| panic!("{name}{suffix}{labels:?} is missing")).1
        };
        assert_eq!(of("_count"), last.1, "{name}{labels:?}");
        assert!(of("_sum") >= 0.0 && (last.1 > 0.0 || of("_sum") == 0.0), "{name}{labels:?}");
    }
}
