//! Configurations by endpoint: `endpoint`, `limit_type`, `capacity`, `refill_rate`, `window`,
//! `burst_allowance`.

use tidegate_policy::Pattern;

use super::decimal::{SustainedRate, UnitWindow};
use super::draft::{Draft, DraftLimit};
use super::item::{SourceFields, SourceValue};
use super::log::ImportLog;
use super::path_pattern;
use super::terms::{DraftTerms, ForeignAlgorithm, capacity, pace};

/// A limit, and what decides which of its kind comes first.
struct Config<'a> {
    limit: DraftLimit,
    limit_type: String,
    pattern: Pattern,
    item: SourceValue<'a>,
}

/// Reads a list of configurations, a map of them by endpoint, or a single one.
pub(super) fn read(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let configs = placed(root, log)
        .into_iter()
        .filter_map(|(item, endpoint)| log.attempt(&item, |log| read_config(&item, endpoint, draft, log)))
        .collect();
    draft.limits.extend(in_groups(configs, log));
}

/// The configurations, with their endpoints where they are listed by them.
fn placed<'a>(root: &SourceValue<'a>, log: &mut ImportLog) -> Vec<(SourceValue<'a>, Option<&'a str>)> {
    let listed = |list: &SourceValue<'a>, log: &mut ImportLog| {
        log.note_if_empty(list);
        list.list(log).into_iter().map(|item| (item, None)).collect()
    };
    if root.is_list() {
        return listed(root, log);
    }
    if root.has("endpoint") {
        return vec![(root.clone(), None)];
    }
    let Some(mut document) = SourceFields::open(root, log) else { return Vec::new() };
    let found = match document.take_any(&["configs", "rate_limits", "endpoints", "limits"]) {
        Some(list) => listed(&list, log),
        None => {
            let paths = root.node.entries().iter().map(|(key, _)| key.value.as_str());
            let paths = paths.filter(|path| path.starts_with('/'));
            paths.filter_map(|path| Some((document.take(path)?, Some(path)))).collect()
        }
    };
    document.finish(log);
    found
}

fn read_config<'a>(
    item: &SourceValue<'a>,
    endpoint: Option<&str>,
    draft: &mut Draft,
    log: &mut ImportLog,
) -> Option<Config<'a>> {
    let mut config = SourceFields::open(item, log)?;
    let place = if endpoint.is_some() { Some(item.clone()) } else { config.need("endpoint", "a path", log) };
    let path = match endpoint {
        Some(endpoint) => Some(endpoint.to_owned()),
        None => place.as_ref().and_then(|place| place.text(log)),
    };
    let limit_type = config.need("limit_type", "per_user, per_ip, per_client or global", log);
    let limit_type = limit_type.and_then(|item| Some((item.text(log)?, item)));
    let terms = read_terms(&mut config, log);
    let description = config.text("description", log);
    let enabled = config.flag("enabled", log).unwrap_or(true);
    config.finish(log);
    let ((path, place), (limit_type, type_place)) = ((path?, place?), limit_type?);
    let path = path_pattern(&path, &place, log)?;
    let Some(identity) = identity(&limit_type) else {
        log.problem(&type_place, "this type of limit is not known", "per_user, per_ip, per_client or global");
        return None;
    };
    let mut key: Vec<String> = identity.iter().map(|&identity| identity.to_owned()).collect();
    key.push("route".to_owned());
    let pattern = Pattern::parse(&path).expect("it has been parsed before");
    if pattern.is_deep() {
        let what = "every path below an endpoint with `*` has a bucket of its own";
        let why =
            "the source's key holds the endpoint asked for; list patterns in `routes` to let paths share one";
        log.note_once(&place, what, why);
    }
    let terms = terms?;
    let name = draft.claim_quietly(&format!("{limit_type}:{path}"));
    let conditions = vec![("path".to_owned(), vec![path])];
    let limit = DraftLimit { description, enabled, conditions, key, ..DraftLimit::new(name, terms) };
    Some(Config { limit, limit_type, pattern, item: item.clone() })
}

fn identity(limit_type: &str) -> Option<&'static [&'static str]> {
    match limit_type {
        "per_user" => Some(&["user"]),
        "per_ip" => Some(&["ip"]),
        "per_client" => Some(&["client"]),
        "global" => Some(&[]),
        _ => None,
    }
}

/// A bucket where a refill rate is given, else a sliding window of `capacity` per `window`.
fn read_terms(config: &mut SourceFields<'_>, log: &mut ImportLog) -> Option<DraftTerms> {
    let item = config.item.clone();
    let size = config.need("capacity", "a whole number of tokens", log);
    let size = size.and_then(|size| Some((size.positive(log)?, size)));
    let allowance = config.take("burst_allowance").and_then(|item| item.positive(log));
    let rate = config.take("refill_rate").and_then(|rate| Some((rate.positive(log)?, rate)));
    let window = config.take("window").and_then(|window| Some((window.whole(log)?, window)));
    let algorithm = config.text("algorithm", log);
    let (size, place) = size?;
    let sliding = algorithm.as_deref() == Some("sliding_window") || (rate.is_none() && window.is_some());
    let terms = if sliding {
        let Some((seconds, _)) = window else {
            log.problem(&item, "`window` is missing", "the window in seconds");
            return None;
        };
        let window = UnitWindow::of_seconds(seconds);
        let limit = size.floor();
        let Ok(rate) = u64::try_from(limit) else {
            log.problem(&place, "this capacity is too large", "at most 1000000");
            return None;
        };
        let pace = SustainedRate { rate, window };
        DraftTerms { algorithm: ForeignAlgorithm::SlidingWindow, ..DraftTerms::bucket(pace, None) }
    } else {
        if let Some((_, place)) = window {
            let why = "a token bucket has no window: `refill_rate` says how fast it fills";
            log.note_once(&place, "`window` is left out", why);
        }
        let Some((rate, rate_place)) = rate else {
            log.problem(&item, "`refill_rate` is missing", "tokens per second, or a `window`");
            return None;
        };
        let Some(size) = allowance.map_or(Some(size), |allowance| size.times(allowance)) else {
            log.problem(&place, "this capacity is too large", "1 to 4294967295");
            return None;
        };
        let burst = capacity(size, &place, log)?;
        DraftTerms::bucket(pace(rate, UnitWindow::SECOND, &rate_place, log)?, Some(burst))
    };
    terms.checked(&item, log)
}

/// One configuration applies to an endpoint and a type of limit. Where two overlap they form a
/// group, the narrower first.
fn in_groups(mut configs: Vec<Config<'_>>, log: &mut ImportLog) -> Vec<DraftLimit> {
    let overlaps = |a: &Config<'_>, b: &Config<'_>| {
        let covers = a.pattern.covers(&b.pattern) || b.pattern.covers(&a.pattern);
        a.limit_type == b.limit_type && covers && !std::ptr::eq(a, b)
    };
    let grouped: Vec<bool> =
        configs.iter().map(|config| configs.iter().any(|other| overlaps(config, other))).collect();
    for (config, grouped) in configs.iter_mut().zip(grouped) {
        config.limit.group = grouped.then(|| config.limit_type.clone());
    }
    let mut ordered: Vec<Config<'_>> = Vec::with_capacity(configs.len());
    for config in configs {
        let wider = |earlier: &Config<'_>| {
            earlier.limit_type == config.limit_type && earlier.pattern.covers(&config.pattern)
        };
        match ordered.iter().position(wider) {
            Some(index) => {
                let what = format!("`{}` is put before `{}`", config.pattern, ordered[index].pattern);
                let why = "in a group the first that matches applies, so the narrower one must come first";
                log.note(&config.item, what, why);
                ordered.insert(index, config);
            }
            None => ordered.push(config),
        }
    }
    ordered.into_iter().map(|config| config.limit).collect()
}
