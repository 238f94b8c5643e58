//! The tree of descriptors, flattened to the nodes that carry a limit.

use tidegate_policy::Descriptor;

use crate::import::item::{SourceFields, SourceValue};
use crate::import::log::ImportLog;

/// One step of the way to a node.
#[derive(Clone, Debug)]
pub(super) struct DescriptorStep<'a> {
    pub(super) key: String,
    /// `None` for any value.
    pub(super) value: Option<String>,
    /// `share_threshold`: all values that a wildcard matches have one bucket.
    pub(super) shared: bool,
    pub(super) item: SourceValue<'a>,
}

impl DescriptorStep<'_> {
    pub(super) fn is_wild(&self) -> bool {
        self.value.as_deref().is_some_and(|value| value.contains('*'))
    }

    /// Exact values are looked up first, then wildcards, then the key alone.
    fn rank(&self) -> u8 {
        match &self.value {
            Some(_) if !self.is_wild() => 0,
            Some(_) => 1,
            None => 2,
        }
    }
}

/// What a node grants: `rate_limit`.
#[derive(Clone, Debug)]
pub(super) struct Grant<'a> {
    pub(super) item: SourceValue<'a>,
    pub(super) name: Option<(String, SourceValue<'a>)>,
    pub(super) unlimited: bool,
    pub(super) requests: Option<(u64, SourceValue<'a>)>,
    pub(super) unit: Option<(String, SourceValue<'a>)>,
    pub(super) multiplier: u64,
}

/// A node that carries a limit.
#[derive(Clone, Debug)]
pub(super) struct FoundLimit<'a> {
    pub(super) entries: Vec<DescriptorStep<'a>>,
    pub(super) grant: Grant<'a>,
    pub(super) shadow: bool,
}

/// A node, before it is known what comes first among its siblings.
struct Sibling<'a> {
    entry: DescriptorStep<'a>,
    grant: Option<Grant<'a>>,
    shadow: bool,
    children: Option<SourceValue<'a>>,
}

/// Reads a list of nodes and what is below them, in the order in which they are looked up.
pub(super) fn read_siblings<'a>(
    list: &SourceValue<'a>,
    way: &mut Vec<DescriptorStep<'a>>,
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
            log.skip(&item, "this descriptor is there twice", "each key and value once");
            continue;
        }
        siblings.push(sibling);
    }
    siblings.sort_by_key(|sibling| sibling.entry.rank());
    for Sibling { entry, grant, shadow, children } in siblings {
        way.push(entry);
        if let Some(grant) = grant {
            found.push(FoundLimit { entries: way.clone(), grant, shadow });
        }
        if let Some(children) = children {
            read_siblings(&children, way, found, log);
        }
        way.pop();
    }
}

fn read_sibling<'a>(item: &SourceValue<'a>, log: &mut ImportLog) -> Option<Sibling<'a>> {
    let mut fields = SourceFields::open(item, log)?;
    let key = fields.need("key", "the key of an entry", log);
    let value = fields.take("value");
    let place = value.clone().unwrap_or_else(|| item.clone());
    let value = value.and_then(|value| value.text(log)).filter(|value| !value.is_empty());
    let shared = fields.take("share_threshold");
    // Without its limit, a node still is the way to those below it.
    let grant = fields.take("rate_limit");
    let grant = grant.and_then(|grant| log.attempt(&grant, |log| read_grant(&grant, log)));
    let shadow = fields.flag("shadow_mode", log).unwrap_or(false);
    let children = fields.take("descriptors");
    let metrics = "which limits are counted is the same for all: see the metrics";
    fields.leave("detailed_metric", metrics, log);
    fields.leave("value_to_metric", metrics, log);
    fields.leave("quota_mode", "every limit counts by itself", log);
    fields.finish(log);

    let key = key.and_then(|key| Some((key.text(log)?, key)));
    let (key, key_place) = key?;
    if Descriptor::parse(&format!("descriptor:{key}")).is_none() {
        log.problem(&key_place, "this key cannot be used", "up to 128 bytes without spaces");
        return None;
    }
    let mut entry = DescriptorStep { key, value, shared: false, item: place };
    if let Some(shared) = shared {
        entry.shared = shared.flag(log)?;
        if entry.shared && !entry.is_wild() {
            log.note(&shared, "`share_threshold` is left out", "it means something beside a wildcard only");
        }
    }
    Some(Sibling { entry, grant, shadow, children })
}

fn read_grant<'a>(item: &SourceValue<'a>, log: &mut ImportLog) -> Option<Grant<'a>> {
    let mut fields = SourceFields::open(item, log)?;
    let unlimited = fields.flag("unlimited", log).unwrap_or(false);
    let requests = fields.take("requests_per_unit").and_then(|item| Some((item.whole(log)?, item)));
    let unit = fields.take("unit").and_then(|item| Some((item.text(log)?, item)));
    let multiplier = fields.take("unit_multiplier").map_or(Some(1), |item| item.whole(log));
    let name = fields.take("name").and_then(|item| Some((item.text(log)?, item)));
    let why =
        "a limit cannot switch off another one; put both in one group, where the first that matches applies";
    fields.leave("replaces", why, log);
    fields.finish(log);
    Some(Grant { item: item.clone(), name, unlimited, requests, unit, multiplier: multiplier? })
}
