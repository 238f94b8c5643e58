//! Writes the draft as the YAML text of a policy.

use std::fmt::Write as _;

use super::{list, map, scalar};
use crate::draft::{Conditions, Draft, DraftLimit, DraftTenant};

impl Draft {
    /// The policy as YAML.
    pub(crate) fn write(&self) -> String {
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
            let mut members = vec![("path".to_owned(), scalar(&route.path))];
            if !route.methods.is_empty() {
                members.push(("methods".to_owned(), list(&route.methods)));
            }
            members.push(("cost".to_owned(), route.cost.to_string()));
            let _ = writeln!(out, "  - {}", map(&members));
        });
        write_section(&mut out, "tenants", &self.tenants, |out, tenant| tenant.write(out));
        write_section(&mut out, "block", &self.blocks, |out, block| {
            let mut members = conditions(&block.conditions);
            let rest = [("reason", &block.reason), ("until", &block.until)];
            for (name, value) in rest {
                members.extend(value.iter().map(|value| (name.to_owned(), scalar(value))));
            }
            if !block.enabled {
                members.push(("enabled".to_owned(), "false".to_owned()));
            }
            let _ = writeln!(out, "  - {}", map(&members));
        });
        out
    }
}

impl DraftLimit {
    fn write(&self, out: &mut String) {
        if let Some(comment) = &self.comment {
            let _ = writeln!(out, "  # {comment}");
        }
        let mut members = vec![("name", scalar(&self.name))];
        if let Some(description) = &self.description {
            members.push(("description", scalar(description)));
        }
        if !self.enabled {
            members.push(("enabled", "false".to_owned()));
        }
        if let Some(group) = &self.group {
            members.push(("group", scalar(group)));
        }
        if !self.conditions.is_empty() {
            members.push(("match", map(&conditions(&self.conditions))));
        }
        match &self.key[..] {
            [] => members.push(("scope", "global".to_owned())),
            key => members.push(("key", list(key))),
        }
        members.extend(self.terms.members());
        if self.shadow {
            members.push(("mode", "shadow".to_owned()));
        }
        write_entry(out, &members);
    }
}

impl DraftTenant {
    fn write(&self, out: &mut String) {
        let mut members = vec![("id", scalar(&self.id))];
        if let Some(parent) = &self.parent {
            members.push(("parent", scalar(parent)));
        }
        if let Some(description) = &self.description {
            members.push(("description", scalar(description)));
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

/// Conditions as YAML: a single value as a scalar, several as a list; `methods` is always a list.
pub(crate) fn conditions(conditions: &Conditions) -> Vec<(String, String)> {
    let value = |name: &str, values: &[String]| match values {
        [value] if name != "methods" => scalar(value),
        values => list(values),
    };
    conditions.iter().map(|(name, values)| (name.clone(), value(name, values))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_policy_is_a_valid_one() {
        assert_eq!(Draft::default().write(), "version: 1\nlimits: []\n");
    }
}
