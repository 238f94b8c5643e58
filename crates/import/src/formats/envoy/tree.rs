//! The tree of descriptors, flattened to the nodes that have a `rate_limit`.

use tidegate_policy::Descriptor;

use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};

/// One level of the path to a node.
#[derive(Clone, Debug)]
pub(crate) struct DescriptorStep<'a> {
    pub(crate) key: String,
    /// `None` for any value.
    pub(crate) value: Option<String>,
    /// `share_threshold`: all values that the wildcard matches share one bucket.
    pub(crate) shared: bool,
    pub(crate) item: SourceValue<'a>,
}

impl DescriptorStep<'_> {
    pub(crate) fn has_wildcard(&self) -> bool {
        self.value.as_deref().is_some_and(|value| value.contains('*'))
    }

    /// The order of lookup: exact values, then wildcards, then the key alone.
    fn rank(&self) -> u8 {
        match &self.value {
            Some(_) if !self.has_wildcard() => 0,
            Some(_) => 1,
            None => 2,
        }
    }
}

/// The `rate_limit` of a node.
#[derive(Clone, Debug)]
pub(crate) struct EnvoyRateLimit<'a> {
    pub(crate) item: SourceValue<'a>,
    pub(crate) name: Option<(String, SourceValue<'a>)>,
    pub(crate) unlimited: bool,
    pub(crate) requests: Option<(u64, SourceValue<'a>)>,
    pub(crate) unit: Option<(String, SourceValue<'a>)>,
    pub(crate) multiplier: u64,
}

/// A node that has a `rate_limit`, with the path to it.
#[derive(Clone, Debug)]
pub(crate) struct FoundLimit<'a> {
    pub(crate) entries: Vec<DescriptorStep<'a>>,
    pub(crate) rate_limit: EnvoyRateLimit<'a>,
    pub(crate) shadow: bool,
}

/// A node that was read, before it is sorted among its siblings.
struct Sibling<'a> {
    item: SourceValue<'a>,
    entry: DescriptorStep<'a>,
    rate_limit: Option<EnvoyRateLimit<'a>>,
    shadow: bool,
    children: Option<SourceValue<'a>>,
}

/// Reads a list of nodes and the nodes below them, in the order of lookup.
pub(crate) fn read_siblings<'a>(
    list: &SourceValue<'a>,
    path: &mut Vec<DescriptorStep<'a>>,
    found: &mut Vec<FoundLimit<'a>>,
    log: &mut ImportLog,
) {
    let mut siblings: Vec<Sibling<'a>> = Vec::new();
    for item in list.list(log) {
        let Some(sibling) = log.attempt(&item, |log| read_sibling(&item, log)) else { continue };
        let same = |other: &Sibling<'_>| {
            other.entry.key == sibling.entry.key && other.entry.value == sibling.entry.value
        };
        if siblings.iter().any(same) {
            log.skip(&item, "this descriptor appears twice", "each key and value once");
            continue;
        }
        siblings.push(sibling);
    }
    siblings.sort_by_key(|sibling| sibling.entry.rank());
    for Sibling { item, entry, rate_limit, shadow, children } in siblings {
        let known = found.len();
        path.push(entry);
        if let Some(rate_limit) = rate_limit {
            found.push(FoundLimit { entries: path.clone(), rate_limit, shadow });
        }
        if let Some(children) = children {
            read_siblings(&children, path, found, log);
            if found.len() == known && !item.has("rate_limit") {
                log.note(&item, "this descriptor is left out", "neither it nor one below it has a limit");
            }
        }
        path.pop();
    }
}

fn read_sibling<'a>(item: &SourceValue<'a>, log: &mut ImportLog) -> Option<Sibling<'a>> {
    let mut fields = SourceFields::open(item, log)?;
    let key = fields.need("key", "the key of an entry", log);
    let value = fields.take("value");
    let origin = value.clone().unwrap_or_else(|| item.clone());
    let value = value.and_then(|value| value.text(log)).filter(|value| !value.is_empty());
    let shared = fields.take("share_threshold");
    // A node whose limit cannot be read still leads to the nodes below it.
    let rate_limit = fields.take("rate_limit");
    let rate_limit =
        rate_limit.and_then(|rate_limit| log.attempt(&rate_limit, |log| read_rate_limit(&rate_limit, log)));
    let shadow = fields.take("shadow_mode");
    if let Some(shadow) = shadow.as_ref().filter(|_| rate_limit.is_none()) {
        log.note(shadow, "`shadow_mode` is left out", "there is no `rate_limit` here");
    }
    let shadow = shadow.map_or(Some(false), |shadow| shadow.flag(log));
    let children = fields.take("descriptors");
    if !item.has("rate_limit") && children.is_none() {
        let why = "it has no `rate_limit`; in the source it exempts its requests from less specific limits, here those \
                   apply to it";
        log.note(item, "this descriptor is left out", why);
    }
    let metrics = "every limit has the same metrics";
    fields.leave_out("detailed_metric", metrics, log);
    fields.leave_out("value_to_metric", metrics, log);
    fields.leave_out("quota_mode", "every limit is counted by itself", log);
    fields.finish(log);

    let key = key.and_then(|key| Some((key.text(log)?, key)));
    let (key, key_origin) = key?;
    if Descriptor::parse(&format!("descriptor:{key}")).is_none() {
        log.problem(&key_origin, "this key cannot be used", "up to 128 bytes without spaces");
        return None;
    }
    let mut entry = DescriptorStep { key, value, shared: false, item: origin };
    if let Some(shared) = shared {
        entry.shared = shared.flag(log)?;
        if entry.shared && !entry.has_wildcard() {
            log.note(&shared, "`share_threshold` is left out", "it has an effect only with a wildcard");
        }
    }
    Some(Sibling { item: item.clone(), entry, rate_limit, shadow: shadow?, children })
}

fn read_rate_limit<'a>(item: &SourceValue<'a>, log: &mut ImportLog) -> Option<EnvoyRateLimit<'a>> {
    let mut fields = SourceFields::open(item, log)?;
    let unlimited = fields.flag("unlimited", log).unwrap_or(false);
    let requests = fields.take("requests_per_unit").and_then(|item| Some((item.whole(log)?, item)));
    let unit = fields.take("unit").and_then(|item| Some((item.text(log)?, item)));
    let multiplier = fields.take("unit_multiplier").and_then(|item| Some((item.whole(log)?, item)));
    let name = fields.take("name").and_then(|item| Some((item.text(log)?, item)));
    let why =
        "a limit cannot switch off another; put both in one group, of which only the first match applies";
    fields.leave_out("replaces", why, log);
    fields.finish(log);
    if unlimited {
        let numbers = [
            ("requests_per_unit", requests.as_ref().map(|(_, item)| item)),
            ("unit", unit.as_ref().map(|(_, item)| item)),
            ("unit_multiplier", multiplier.as_ref().map(|(_, item)| item)),
        ];
        for (name, item) in numbers.iter().filter_map(|(name, item)| Some((name, (*item)?))) {
            log.note(item, format!("`{name}` is left out"), "`unlimited` beside it takes precedence");
        }
    }
    let multiplier = multiplier.map_or(1, |(count, _)| count);
    Some(EnvoyRateLimit { item: item.clone(), name, unlimited, requests, unit, multiplier })
}
