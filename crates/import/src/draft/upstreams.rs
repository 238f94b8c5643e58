//! The upstreams of a draft, and the limits that tenants have for them.

use super::names::unique;
use super::{Draft, DraftTenant, DraftUpstream, UpstreamLimit, is_name};
use crate::log::ImportLog;
use crate::source::SourceValue;

impl Draft {
    /// Adds an upstream, or adds its hosts to the one of that name; returns its name in the policy.
    pub(crate) fn add_upstream(&mut self, found: DraftUpstream, log: &mut ImportLog) -> String {
        let same = self.upstreams.iter_mut().find(|known| known.known_as.contains(&found.name));
        if let Some(known) = same {
            add_new(&mut known.hosts, found.hosts);
            add_new(&mut known.known_as, found.known_as);
            return known.name.clone();
        }
        let name = unique(&found.name, &mut self.upstream_names);
        if name != found.name {
            let why = "names are unique and contain only letters, digits and `._:/-`; requests must use the new name";
            let what = format!("the upstream `{}` is renamed to `{name}`", found.name);
            log.note_at(found.at, found.path.clone(), what, why.to_owned());
        }
        let mut known_as = found.known_as;
        known_as.push(found.name);
        self.upstreams.push(DraftUpstream { name: name.clone(), known_as, ..found });
        name
    }

    /// Does an upstream that is known by the first of these names have this host?
    pub(crate) fn has_host(&self, names: &[String], host: &str) -> bool {
        let is_same =
            |known: &&DraftUpstream| names.first().is_some_and(|name| known.known_as.contains(name));
        self.upstreams.iter().find(is_same).is_some_and(|known| known.hosts.iter().any(|other| other == host))
    }

    /// How many upstreams, hosts and names of upstreams there are: whether an upstream of the source has added anything.
    pub(crate) fn upstream_counts(&self) -> [usize; 3] {
        let hosts = self.upstreams.iter().map(|upstream| upstream.hosts.len()).sum();
        let names = self.upstreams.iter().map(|upstream| upstream.known_as.len()).sum();
        [self.upstreams.len(), hosts, names]
    }

    /// The name in the policy of an upstream that the source refers to. One that the source does not describe is added,
    /// with a note.
    pub(crate) fn upstream_of(
        &mut self,
        written: &str,
        item: &SourceValue<'_>,
        log: &mut ImportLog,
    ) -> String {
        let known = self.upstreams.iter().find(|known| known.known_as.iter().any(|name| name == written));
        if let Some(known) = known {
            return known.name.clone();
        }
        let (at, path) = (item.at, item.path.clone());
        let found =
            DraftUpstream { name: written.to_owned(), known_as: Vec::new(), hosts: Vec::new(), at, path };
        self.add_upstream(found, log)
    }

    /// Adds the limit of a tenant for an upstream.
    ///
    /// # Errors
    /// With the limit, if the tenant has one for this upstream already.
    pub(crate) fn add_upstream_limit(&mut self, limit: UpstreamLimit) -> Result<(), UpstreamLimit> {
        let is_same =
            |other: &UpstreamLimit| other.tenant == limit.tenant && other.upstream == limit.upstream;
        if self.upstream_limits.iter().any(is_same) {
            return Err(limit);
        }
        self.upstream_limits.push(limit);
        Ok(())
    }

    /// Gives the tenants their limits for upstreams, and notes the upstreams that requests must name themselves. To be
    /// called once, when the whole document has been read.
    pub(crate) fn settle_upstreams(&mut self, log: &mut ImportLog) {
        for limit in std::mem::take(&mut self.upstream_limits) {
            if !self.has_tenant(&limit.tenant) && !self.add_unlisted(&limit, log) {
                continue;
            }
            let owner = self.tenants.iter_mut().find(|tenant| tenant.id == limit.tenant);
            let owner = owner.expect("it was found, or has just been added");
            owner.upstreams.push((limit.upstream, limit.members));
        }
        for upstream in self.upstreams.iter().filter(|upstream| upstream.hosts.is_empty()) {
            let what = format!("the upstream `{}` has no host", upstream.name);
            let why = "its limits apply to requests that name it themselves, as `upstream`".to_owned();
            log.note_at(upstream.at, upstream.path.clone(), what, why);
        }
    }

    /// Adds a tenant that the document names but does not list; `false` if it cannot be one.
    fn add_unlisted(&mut self, limit: &UpstreamLimit, log: &mut ImportLog) -> bool {
        let id = &limit.tenant;
        let (what, why) = if is_name(id) {
            let why = "it has a limit for an upstream but is not in `tenants`, so it has no parent here";
            (format!("the tenant `{id}` is added"), why)
        } else {
            (
                format!("`{}` is not imported", limit.path),
                "the id of a tenant has only letters, digits and `._:/-`",
            )
        };
        log.note_at(limit.at, limit.path.clone(), what, why.to_owned());
        is_name(id)
            && self.add_tenant(DraftTenant {
                id: id.clone(),
                parent: None,
                description: None,
                at: limit.at,
                path: limit.path.clone(),
                rate_limit: None,
                upstreams: Vec::new(),
            })
    }
}

/// Adds those texts that are not in the list yet.
fn add_new(list: &mut Vec<String>, texts: Vec<String>) {
    for text in texts {
        if !list.contains(&text) {
            list.push(text);
        }
    }
}
