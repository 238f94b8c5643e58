//! What a draft loses where the policy does not allow it: as little as possible, and never a cap on others.

use super::{Draft, DraftTenant, LimitMembers};
use crate::yaml;

impl Draft {
    /// Repairs an entry that the policy does not allow, and returns what was done, for a note. Most entries are removed.
    /// A tenant stays, for others may have it as their parent; it loses the limit with the error, and a budget that its
    /// children exceed becomes `shared`, so that its cap still holds for all of them together.
    pub(super) fn repair(&mut self, list: &str, index: usize, within: &str) -> Option<String> {
        let removed = match list {
            "limits" if index < self.limits.len() => {
                format!("the limit `{}`", self.limits.remove(index).name)
            }
            "upstreams" if index < self.upstreams.len() => {
                format!("the upstream `{}`", self.upstreams.remove(index).name)
            }
            "routes" if index < self.routes.len() => {
                format!("the route `{}`", self.routes.remove(index).path)
            }
            "block" if index < self.blocks.len() => {
                let conditions = yaml::map(&yaml::conditions(&self.blocks.remove(index).conditions));
                format!("the block of {conditions}")
            }
            "tenants" if within == ".parent" => return self.drop_parent(index),
            "tenants" => return self.share_budget(index, within).or_else(|| self.drop_limit(index, within)),
            _ => return None,
        };
        Some(format!("{removed} is not imported"))
    }

    fn drop_parent(&mut self, index: usize) -> Option<String> {
        let tenant = self.tenants.get_mut(index)?;
        tenant.parent.take()?;
        Some(format!("the parent of `{}` is left out", tenant.id))
    }

    /// Lets the children of a tenant share its budget, if the error is about their parts of it: either that they are too
    /// large together, or that nothing is left for one of them.
    fn share_budget(&mut self, index: usize, within: &str) -> Option<String> {
        let tenant = self.tenants.get(index)?;
        let holder = if within.ends_with(".budget") {
            index
        } else {
            let is_missing = tenant.limit_at(within)?.is_none();
            let parent = tenant.parent.as_ref().filter(|_| is_missing)?;
            self.tenants.iter().position(|tenant| tenant.id == *parent)?
        };
        let holder = self.tenants.get_mut(holder)?;
        let budget = holder.budget_at(within)?;
        let shared = budget.replace("mode: allocated", "mode: shared");
        if shared == *budget {
            return None;
        }
        *budget = shared;
        Some(format!("the budget of the tenant `{}` becomes `shared`", holder.id))
    }

    /// Removes a limit of a tenant: the one for an upstream if the path leads there, else the `rate_limit`, else all that
    /// are left.
    fn drop_limit(&mut self, index: usize, within: &str) -> Option<String> {
        let tenant = self.tenants.get_mut(index)?;
        let id = tenant.id.clone();
        if let Some(index) = upstream_in(within).and_then(|name| tenant.upstream_index(name)) {
            let (name, _) = tenant.upstreams.remove(index);
            return Some(format!(
                "the rate_limit of the tenant `{id}` for the upstream `{name}` is not imported"
            ));
        }
        if tenant.rate_limit.take().is_some() {
            return Some(format!("the rate_limit of the tenant `{id}` is not imported"));
        }
        let has_some = !std::mem::take(&mut tenant.upstreams).is_empty();
        has_some.then(|| format!("what the tenant `{id}` has for upstreams is not imported"))
    }
}

/// What follows `.upstreams.` in a path within a tenant; it begins with the name of the upstream.
fn upstream_in(within: &str) -> Option<&str> {
    within.strip_prefix(".upstreams.")
}

impl DraftTenant {
    /// The limit for the upstream with which the text begins. A name may have dots itself.
    fn upstream_index(&self, text: &str) -> Option<usize> {
        let begins =
            |name: &str| text.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.upstreams.iter().position(|(name, _)| begins(name))
    }

    /// The limit that a path within the tenant leads to, and whether there is one; `None` for any other path.
    fn limit_at(&self, within: &str) -> Option<Option<&LimitMembers>> {
        match upstream_in(within) {
            Some(text) => Some(self.upstream_index(text).map(|index| &self.upstreams[index].1)),
            None => within.starts_with(".rate_limit").then_some(self.rate_limit.as_ref()),
        }
    }

    /// The budget, as YAML, of the limit for all requests or for an upstream, whichever the path is about.
    fn budget_at(&mut self, within: &str) -> Option<&mut String> {
        let members = match upstream_in(within) {
            Some(text) => {
                let index = self.upstream_index(text)?;
                &mut self.upstreams[index].1
            }
            None => self.rate_limit.as_mut()?,
        };
        members.iter_mut().find(|(name, _)| *name == "budget").map(|(_, budget)| budget)
    }
}
