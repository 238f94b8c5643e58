//! The collections of a policy document: lists whose entries have a name.

/// A collection of a policy document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Collection {
    /// The limits.
    Limits,
    /// The routes.
    Routes,
    /// The upstreams.
    Upstreams,
    /// What is exempt.
    Allow,
    /// What is refused.
    Block,
    /// The burst detectors.
    Bursts,
    /// The tenants.
    Tenants,
}

impl Collection {
    /// All of them.
    pub(crate) const ALL: [Collection; 7] = [
        Collection::Limits,
        Collection::Routes,
        Collection::Upstreams,
        Collection::Allow,
        Collection::Block,
        Collection::Bursts,
        Collection::Tenants,
    ];

    /// Its name in the document and in paths of the admin API.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Collection::Limits => "limits",
            Collection::Routes => "routes",
            Collection::Upstreams => "upstreams",
            Collection::Allow => "allow",
            Collection::Block => "block",
            Collection::Bursts => "bursts",
            Collection::Tenants => "tenants",
        }
    }

    /// The words for one entry.
    pub(crate) const fn entry(self) -> &'static str {
        match self {
            Collection::Limits => "limit",
            Collection::Routes => "route",
            Collection::Upstreams => "upstream",
            Collection::Allow => "entry of `allow`",
            Collection::Block => "entry of `block`",
            Collection::Bursts => "burst detector",
            Collection::Tenants => "tenant",
        }
    }

    /// May its entries go without a name in the document?
    pub(crate) const fn has_optional_ids(self) -> bool {
        matches!(self, Collection::Routes | Collection::Allow | Collection::Block)
    }

    /// The collections in which no two entries may have the same name: this one, and for limits and burst detectors both.
    pub(crate) const fn sharing_names(self) -> &'static [Collection] {
        match self {
            Collection::Limits | Collection::Bursts => &[Collection::Limits, Collection::Bursts],
            Collection::Routes => &[Collection::Routes],
            Collection::Upstreams => &[Collection::Upstreams],
            Collection::Allow => &[Collection::Allow],
            Collection::Block => &[Collection::Block],
            Collection::Tenants => &[Collection::Tenants],
        }
    }

    /// The name of an entry's object in the JSON Schema of the policy.
    pub(crate) const fn schema(self) -> &'static str {
        match self {
            Collection::Limits => "limit",
            Collection::Routes => "route",
            Collection::Upstreams => "upstream",
            Collection::Allow | Collection::Block => "gate",
            Collection::Bursts => "detector",
            Collection::Tenants => "tenant",
        }
    }

    /// The collection and the index of the entry that a path in the document leads to: `limits[3].sustained`.
    pub(crate) fn of_path(path: &str) -> Option<(Collection, usize)> {
        let (name, rest) = path.split_once('[')?;
        let collection = Collection::ALL.into_iter().find(|collection| collection.as_str() == name)?;
        Some((collection, rest.split_once(']')?.0.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_an_entry() {
        assert_eq!(Collection::of_path("tenants[12].rate_limit"), Some((Collection::Tenants, 12)));
        assert_eq!(Collection::of_path("allow[0]"), Some((Collection::Allow, 0)));
        for none in ["defaults.tenant", "limits", "other[0]", "limits[x]", ""] {
            assert_eq!(Collection::of_path(none), None, "{none}");
        }
    }
}
