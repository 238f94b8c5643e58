//! The policy that an import writes, entry by entry.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use tidegate_document::Span;

use super::item::SourceValue;
use super::log::ImportLog;
use super::terms::DraftTerms;
use super::yaml;

/// The longest name a policy allows.
const NAME_BYTES_MAX: usize = 128;

/// Values that a descriptor may have.
pub(super) type Conditions = Vec<(String, Vec<String>)>;

/// A limit.
#[derive(Clone, Debug)]
pub(super) struct DraftLimit {
    /// Why it looks as it does, where that was decided here.
    pub(super) comment: Option<String>,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) enabled: bool,
    pub(super) group: Option<String>,
    pub(super) conditions: Conditions,
    /// Nothing for one bucket for all.
    pub(super) key: Vec<String>,
    pub(super) terms: DraftTerms,
    pub(super) shadow: bool,
}

impl DraftLimit {
    /// A limit for everything, with a bucket for all.
    pub(super) fn new(name: String, terms: DraftTerms) -> DraftLimit {
        DraftLimit {
            comment: None,
            name,
            description: None,
            enabled: true,
            group: None,
            conditions: Vec::new(),
            key: Vec::new(),
            terms,
            shadow: false,
        }
    }

    fn write(&self, out: &mut String) {
        if let Some(comment) = &self.comment {
            let _ = writeln!(out, "  # {comment}");
        }
        let mut members = vec![("name", yaml::scalar(&self.name))];
        if let Some(description) = &self.description {
            members.push(("description", yaml::scalar(description)));
        }
        if !self.enabled {
            members.push(("enabled", "false".to_owned()));
        }
        if let Some(group) = &self.group {
            members.push(("group", yaml::scalar(group)));
        }
        if !self.conditions.is_empty() {
            members.push(("match", yaml::map(&shown(&self.conditions))));
        }
        match &self.key[..] {
            [] => members.push(("scope", "global".to_owned())),
            key => members.push(("key", yaml::list(key))),
        }
        members.extend(self.terms.members());
        if self.shadow {
            members.push(("mode", "shadow".to_owned()));
        }
        write_entry(out, &members);
    }
}

/// A route and its cost.
#[derive(Clone, Debug)]
pub(super) struct DraftRoute {
    pub(super) path: String,
    pub(super) methods: Vec<String>,
    pub(super) cost: u32,
}

/// A tenant.
#[derive(Clone, Debug)]
pub(super) struct DraftTenant {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) description: Option<String>,
    /// Where it stands in the source.
    pub(super) at: Span,
    pub(super) path: String,
    /// `sharing` and `scope`, then the terms, then `budget`; `None` for a tenant without a limit.
    pub(super) rate_limit: Option<Vec<(&'static str, String)>>,
}

impl DraftTenant {
    fn write(&self, out: &mut String) {
        let mut members = vec![("id", yaml::scalar(&self.id))];
        if let Some(parent) = &self.parent {
            members.push(("parent", yaml::scalar(parent)));
        }
        if let Some(description) = &self.description {
            members.push(("description", yaml::scalar(description)));
        }
        write_entry(out, &members);
        if let Some(rate_limit) = &self.rate_limit {
            out.push_str("    rate_limit:\n");
            for (name, value) in rate_limit {
                let _ = writeln!(out, "      {name}: {value}");
            }
        }
    }
}

/// Somebody who is refused.
#[derive(Clone, Debug)]
pub(super) struct DraftBlock {
    pub(super) conditions: Conditions,
    pub(super) reason: Option<String>,
    pub(super) until: Option<String>,
    pub(super) enabled: bool,
}

/// A policy in the making.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// `defaults.mode: shadow`
    pub(super) shadow: bool,
    pub(super) limits: Vec<DraftLimit>,
    pub(super) routes: Vec<DraftRoute>,
    pub(super) tenants: Vec<DraftTenant>,
    pub(super) blocks: Vec<DraftBlock>,
    names: BTreeSet<String>,
    tenant_ids: BTreeSet<String>,
    groups: BTreeSet<String>,
}

/// How much of a policy there was at some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    limits: usize,
    routes: usize,
    blocks: usize,
}

impl Draft {
    /// A name that a policy allows and nobody else has; what had to change is noted.
    pub(super) fn claim(&mut self, wanted: &str, item: &SourceValue<'_>, log: &mut ImportLog) -> String {
        let name = self.claim_quietly(wanted);
        if name != wanted {
            let why = "names are unique and made of letters, digits and `._:/-`";
            log.note(item, format!("`{wanted}` is named `{name}`"), why);
        }
        name
    }

    /// The same for a name that the source did not give.
    pub(super) fn claim_quietly(&mut self, wanted: &str) -> String {
        unique(wanted, &mut self.names)
    }

    /// A name for a group that is none yet.
    pub(super) fn claim_group(&mut self, wanted: &str) -> String {
        unique(wanted, &mut self.groups)
    }

    /// Adds a tenant, unless there is one with its id.
    pub(super) fn add_tenant(&mut self, tenant: DraftTenant) -> bool {
        let is_new = self.tenant_ids.insert(tenant.id.clone());
        if is_new {
            self.tenants.push(tenant);
        }
        is_new
    }

    /// Is there a tenant with this id?
    pub(super) fn has_tenant(&self, id: &str) -> bool {
        self.tenant_ids.contains(id)
    }

    /// Takes an entry out of the finished policy and says what it was. Of a tenant only the limit
    /// goes: others may have it as their parent.
    pub(super) fn drop_entry(&mut self, list: &str, index: usize) -> Option<String> {
        match list {
            "limits" if index < self.limits.len() => {
                Some(format!("the limit `{}`", self.limits.remove(index).name))
            }
            "routes" if index < self.routes.len() => {
                Some(format!("the route `{}`", self.routes.remove(index).path))
            }
            "block" if index < self.blocks.len() => {
                let conditions = yaml::map(&shown(&self.blocks.remove(index).conditions));
                Some(format!("the block of {conditions}"))
            }
            "tenants" => {
                let tenant = self.tenants.get_mut(index)?;
                tenant.rate_limit.take()?;
                Some(format!("the rate_limit of the tenant `{}`", tenant.id))
            }
            _ => None,
        }
    }

    /// What there is now.
    pub(super) fn mark(&self) -> Mark {
        Mark { limits: self.limits.len(), routes: self.routes.len(), blocks: self.blocks.len() }
    }

    /// Takes back what was added since.
    pub(super) fn back_to(&mut self, mark: Mark) {
        for limit in self.limits.drain(mark.limits..) {
            self.names.remove(&limit.name);
        }
        self.routes.truncate(mark.routes);
        self.blocks.truncate(mark.blocks);
    }

    /// Has this name been claimed?
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Is there anything in it?
    pub(super) fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.routes.is_empty() && self.tenants.is_empty() && self.blocks.is_empty()
    }

    /// Is there nothing in it that limits or costs anything?
    pub(super) fn is_idle(&self) -> bool {
        let limited = self.tenants.iter().any(|tenant| tenant.rate_limit.is_some());
        self.limits.is_empty() && self.routes.is_empty() && self.blocks.is_empty() && !limited
    }

    /// The policy as YAML.
    pub(super) fn write(&self) -> String {
        let mut out = "version: 1\n".to_owned();
        if self.shadow {
            out.push_str("defaults: { mode: shadow }\n");
        }
        if self.limits.is_empty() {
            out.push_str("limits: []\n");
        } else {
            out.push_str("limits:\n");
            self.limits.iter().for_each(|limit| limit.write(&mut out));
        }
        write_section(&mut out, "routes", &self.routes, |out, route| {
            let mut members = vec![("path".to_owned(), yaml::scalar(&route.path))];
            if !route.methods.is_empty() {
                members.push(("methods".to_owned(), yaml::list(&route.methods)));
            }
            members.push(("cost".to_owned(), route.cost.to_string()));
            let _ = writeln!(out, "  - {}", yaml::map(&members));
        });
        write_section(&mut out, "tenants", &self.tenants, |out, tenant| tenant.write(out));
        write_section(&mut out, "block", &self.blocks, |out, block| {
            let mut members = shown(&block.conditions);
            let rest = [("reason", &block.reason), ("until", &block.until)];
            for (name, value) in rest {
                members.extend(value.iter().map(|value| (name.to_owned(), yaml::scalar(value))));
            }
            if !block.enabled {
                members.push(("enabled".to_owned(), "false".to_owned()));
            }
            let _ = writeln!(out, "  - {}", yaml::map(&members));
        });
        out
    }
}

fn write_section<T>(out: &mut String, name: &str, entries: &[T], write: impl Fn(&mut String, &T)) {
    if !entries.is_empty() {
        let _ = writeln!(out, "{name}:");
        entries.iter().for_each(|entry| write(out, entry));
    }
}

fn write_entry(out: &mut String, members: &[(&str, String)]) {
    for (index, (name, value)) in members.iter().enumerate() {
        let lead = if index == 0 { "  - " } else { "    " };
        let _ = writeln!(out, "{lead}{name}: {value}");
    }
}

/// The text as a name that is not in use, and is from now on.
fn unique(wanted: &str, used: &mut BTreeSet<String>) -> String {
    let base = fitting(wanted);
    let mut name = base.clone();
    let mut number = 1_u32;
    while !used.insert(name.clone()) {
        number += 1;
        let suffix = format!("-{number}");
        name = format!("{}{suffix}", &base[..base.len().min(NAME_BYTES_MAX - suffix.len())]);
    }
    name
}

/// Conditions as YAML: one value alone, several in a list; `methods` is always one.
fn shown(conditions: &Conditions) -> Vec<(String, String)> {
    let value = |name: &str, values: &[String]| match values {
        [value] if name != "methods" => yaml::scalar(value),
        values => yaml::list(values),
    };
    conditions.iter().map(|(name, values)| (name.clone(), value(name, values))).collect()
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._:/-".contains(c)
}

/// Can this be a name as it is?
pub(super) fn fits(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_allowed)
}

/// The text with everything replaced that a name cannot hold.
pub(super) fn fitting(wanted: &str) -> String {
    let mut name = String::new();
    for c in wanted.chars() {
        if is_allowed(c) {
            name.push(c);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(NAME_BYTES_MAX);
    // Names of tenants' limits start so, and are reserved.
    if let Some(rest) = name.strip_prefix("tenant:") {
        name = format!("tenant-{rest}");
    }
    let trimmed = name.trim_matches('-');
    if trimmed.is_empty() { "limit".to_owned() } else { trimmed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::decimal::{SustainedRate, UnitWindow};

    #[test]
    fn names_are_made_to_fit() {
        assert_eq!(fitting("per-user"), "per-user");
        assert_eq!(fitting("per user (free)"), "per-user-free");
        assert_eq!(fitting("tenant:a"), "tenant-a");
        assert_eq!(fitting("日本"), "limit");
        assert_eq!(fitting(&"a".repeat(300)).len(), NAME_BYTES_MAX);
    }

    #[test]
    fn names_are_unique() {
        let mut draft = Draft::default();
        let names: Vec<String> = (0..3).map(|_| draft.claim_quietly("a b")).collect();
        assert_eq!(names, ["a-b", "a-b-2", "a-b-3"]);
        let long = "x".repeat(NAME_BYTES_MAX);
        draft.claim_quietly(&long);
        let second = draft.claim_quietly(&long);
        assert_eq!(second.len(), NAME_BYTES_MAX);
        assert!(second.ends_with("-2"));
    }

    #[test]
    fn what_is_taken_back_leaves_its_name() {
        let mut draft = Draft::default();
        let pace = SustainedRate { rate: 1, window: UnitWindow::SECOND };
        let add = |draft: &mut Draft| {
            let name = draft.claim_quietly("a");
            draft.limits.push(DraftLimit::new(name, DraftTerms::bucket(pace, None)));
        };
        add(&mut draft);
        let mark = draft.mark();
        add(&mut draft);
        draft.back_to(mark);
        add(&mut draft);
        let names: Vec<&str> = draft.limits.iter().map(|limit| limit.name.as_str()).collect();
        assert_eq!(names, ["a", "a-2"]);
    }

    #[test]
    fn an_empty_policy_is_a_valid_one() {
        assert_eq!(Draft::default().write(), "version: 1\nlimits: []\n");
    }
}
