//! Writes the draft as the YAML text of a policy.

use std::fmt::Write as _;

use super::{list, map, scalar};
use crate::draft::{Conditions, Draft, DraftLimit, DraftRoute, DraftTenant, LimitMembers};

impl Draft {
    /// The policy as YAML.
    pub(crate) fn write(&self) -> String {
        let mut out = "version: 1\n".to_owned();
        self.write_defaults(&mut out);
        if self.limits.is_empty() {
            out.push_str("limits: []\n");
        } else {
            out.push_str("limits:\n");
            self.limits.iter().for_each(|limit| limit.write(&mut out));
        }
        write_section(&mut out, "upstreams", &self.upstreams, |out, upstream| {
            let mut members = vec![("name", scalar(&upstream.name))];
            if !upstream.hosts.is_empty() {
                members.push(("hosts", list(&upstream.hosts)));
            }
            let _ = writeln!(out, "  - {}", map(&members));
        });
        write_section(&mut out, "routes", &self.routes, |out, route| {
            let _ = writeln!(out, "  - {}", map(&route.members()));
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

    /// Writes `defaults`. A policy without limits needs none.
    fn write_defaults(&self, out: &mut String) {
        let mode = self.shadow.then(|| ("mode", "shadow".to_owned()));
        let rest = self.defaults.iter().filter(|_| !self.limits.is_empty()).cloned();
        let members: Vec<(&str, String)> = mode.into_iter().chain(rest).collect();
        if members.is_empty() {
            return;
        }
        if let Some(comment) = self.defaults_comment.filter(|_| !self.limits.is_empty()) {
            let _ = writeln!(out, "# {comment}");
        }
        let _ = writeln!(out, "defaults: {}", map(&members));
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
            write_rate_limit(out, "    ", rate_limit);
        }
        if !self.upstreams.is_empty() {
            out.push_str("    upstreams:\n");
        }
        for (name, rate_limit) in &self.upstreams {
            let _ = writeln!(out, "      {}:", scalar(name));
            write_rate_limit(out, "        ", rate_limit);
        }
    }
}

impl DraftRoute {
    fn members(&self) -> Vec<(&'static str, String)> {
        let mut members = vec![("path", scalar(&self.path))];
        if !self.methods.is_empty() {
            members.push(("methods", list(&self.methods)));
        }
        members.extend(self.upstream.iter().map(|upstream| ("upstream", scalar(upstream))));
        members.push(("cost", self.cost.to_string()));
        if !self.enabled {
            members.push(("enabled", "false".to_owned()));
        }
        members
    }
}

fn write_rate_limit(out: &mut String, indent: &str, members: &LimitMembers) {
    let _ = writeln!(out, "{indent}rate_limit:");
    for (name, value) in members {
        let _ = writeln!(out, "{indent}  {name}: {value}");
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
