//! Limits by endpoint: `endpoint`, `limit_type`, `capacity`, `refill_rate`, `window`, `burst_allowance`.

use tidegate_policy::Pattern;

use super::path_pattern;
use crate::draft::{Draft, DraftLimit};
use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};
use crate::terms::{Decimal, DraftTerms, ForeignAlgorithm, SustainedRate, UnitWindow, capacity, pace};

/// A limit, with the type and pattern that decide its group and its order in it.
struct Config<'a> {
    limit: DraftLimit,
    limit_type: String,
    pattern: Pattern,
    item: SourceValue<'a>,
}

/// Reads a list of limits, a map of them by endpoint, or a single one.
pub(crate) fn read(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let configs = with_endpoints(root, log)
        .into_iter()
        .filter_map(|(item, endpoint)| log.attempt(&item, |log| read_config(&item, endpoint, draft, log)))
        .collect();
    draft.limits.extend(in_groups(configs, log));
}

/// The limits, each with its endpoint if they are a map by endpoint.
fn with_endpoints<'a>(
    root: &SourceValue<'a>,
    log: &mut ImportLog,
) -> Vec<(SourceValue<'a>, Option<&'a str>)> {
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
    let origin = if endpoint.is_some() { Some(item.clone()) } else { config.need("endpoint", "a path", log) };
    let path = match endpoint {
        Some(endpoint) => Some(endpoint.to_owned()),
        None => origin.as_ref().and_then(|origin| origin.text(log)),
    };
    let limit_type = config.need("limit_type", "per_user, per_ip, per_client or global", log);
    let limit_type = limit_type.and_then(|item| Some((item.text(log)?, item)));
    let terms = read_terms(&mut config, log);
    let description = config.text("description", log);
    let enabled = config.flag("enabled", log).unwrap_or(true);
    config.finish(log);
    let ((path, origin), (limit_type, type_origin)) = ((path?, origin?), limit_type?);
    let path = path_pattern(&path, &origin, log)?;
    let Some(identity) = identity(&limit_type) else {
        log.problem(&type_origin, "this limit type is not known", "per_user, per_ip, per_client or global");
        return None;
    };
    let mut key: Vec<String> = identity.iter().map(|&identity| identity.to_owned()).collect();
    key.push("route".to_owned());
    let pattern = Pattern::parse(&path).expect("`path_pattern` has parsed it");
    if pattern.is_deep() {
        let what = "every path that matches an endpoint with `*` has a bucket of its own";
        let why =
            "the source counts by the requested path; list patterns in `routes` to let paths share a bucket";
        log.note_once(&origin, what, why);
    }
    let terms = terms?;
    let name = draft.claim_without_note(&format!("{limit_type}:{path}"));
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

/// A number of a limit, and where it was written.
type Number<'a> = (Decimal, SourceValue<'a>);

/// The numbers of a limit.
struct Numbers<'a> {
    item: SourceValue<'a>,
    size: Number<'a>,
    allowance: Option<Number<'a>>,
    rate: Option<Number<'a>>,
    window: Option<(u64, SourceValue<'a>)>,
}

/// A sliding window if the limit says so or has no refill rate, otherwise a token bucket.
fn read_terms(config: &mut SourceFields<'_>, log: &mut ImportLog) -> Option<DraftTerms> {
    let item = config.item.clone();
    let size = config.need("capacity", "a whole number of tokens", log);
    let size = size.and_then(|size| Some((size.positive(log)?, size)));
    let allowance = config.take("burst_allowance").and_then(|item| Some((item.positive(log)?, item)));
    let rate = config.take("refill_rate").and_then(|rate| Some((rate.positive(log)?, rate)));
    let window = config.take("window").and_then(|window| Some((window.whole(log)?, window)));
    let algorithm = config.take("algorithm").and_then(|algorithm| Some((algorithm.text(log)?, algorithm)));
    let numbers = Numbers { item, size: size?, allowance, rate, window };
    let is_sliding = match &algorithm {
        None => numbers.rate.is_none() && numbers.window.is_some(),
        Some((word, _)) if word == "token_bucket" => false,
        Some((word, _)) if word == "sliding_window" => true,
        Some((_, origin)) => {
            log.problem(origin, "this algorithm is not known", "token_bucket or sliding_window");
            return None;
        }
    };
    let terms = if is_sliding { sliding_window(&numbers, log) } else { token_bucket(&numbers, log) };
    terms?.checked(&numbers.item, log)
}

/// A sliding window of `capacity` requests per `window`. In the source, it uses no other number.
fn sliding_window(numbers: &Numbers<'_>, log: &mut ImportLog) -> Option<DraftTerms> {
    let Some((seconds, _)) = numbers.window else {
        log.problem(&numbers.item, "`window` is missing", "the window in seconds");
        return None;
    };
    let why = "a sliding window admits `capacity` requests per `window`, neither more in a burst nor at another rate";
    for (name, member) in [("burst_allowance", &numbers.allowance), ("refill_rate", &numbers.rate)] {
        if let Some((_, member)) = member {
            log.note(member, format!("`{name}` is left out"), why);
        }
    }
    let (size, origin) = &numbers.size;
    let rate = u64::from(capacity(*size, origin, log)?);
    let pace = SustainedRate { rate, window: UnitWindow::of_seconds(seconds) };
    Some(DraftTerms { algorithm: ForeignAlgorithm::SlidingWindow, ..DraftTerms::bucket(pace, None) })
}

/// A token bucket of `capacity` times `burst_allowance`.
fn token_bucket(numbers: &Numbers<'_>, log: &mut ImportLog) -> Option<DraftTerms> {
    if let Some((_, origin)) = &numbers.window {
        let why = "a token bucket has no window: it fills at `refill_rate`";
        log.note_once(origin, "`window` is left out", why);
    }
    let Some((rate, rate_origin)) = &numbers.rate else {
        log.problem(&numbers.item, "`refill_rate` is missing", "tokens per second, or a `window`");
        return None;
    };
    let (size, origin) = &numbers.size;
    let size = match &numbers.allowance {
        None => Some(*size),
        Some((allowance, _)) => size.times(*allowance),
    };
    let Some(size) = size else {
        log.problem(origin, "this capacity is too large", "1 to 4294967295");
        return None;
    };
    let burst = capacity(size, origin, log)?;
    if let Some((_, origin)) =
        numbers.allowance.as_ref().filter(|(allowance, _)| *allowance != Decimal::from(1))
    {
        let why = "the source does not say what `burst_allowance` multiplies; here it is `capacity`";
        log.note(origin, format!("the capacity becomes {burst}"), why);
    }
    Some(DraftTerms::bucket(pace(*rate, UnitWindow::SECOND, rate_origin, log)?, Some(burst)))
}

/// In the source, one limit of each type applies to an endpoint. So limits of one type with overlapping patterns form a
/// group, the more specific first.
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
                let what = format!("`{}` is moved before `{}`", config.pattern, ordered[index].pattern);
                let why = "only the first matching limit of a group applies, so the more specific one must come first";
                log.note(&config.item, what, why);
                ordered.insert(index, config);
            }
            None => ordered.push(config),
        }
    }
    ordered.into_iter().map(|config| config.limit).collect()
}
