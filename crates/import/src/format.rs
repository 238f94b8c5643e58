//! The formats that can be imported.

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImportFormat {
    /// OAGW's `rate_limit` objects, routes and tenants.
    Oagw,
    /// Fairvisor's policy bundles and rule lists.
    Fairvisor,
    /// The descriptors of envoyproxy/ratelimit.
    Envoy,
    /// Limitador's list of limits.
    Limitador,
    /// Rows of a rule table, as CSV or JSON.
    Rules,
    /// Limits by endpoint.
    Endpoints,
}

impl ImportFormat {
    /// Every format by its name on the command line, with a description.
    pub const NAMES: &'static [(&'static str, ImportFormat, &'static str)] = &[
        (
            "oagw",
            ImportFormat::Oagw,
            "OAGW rate_limit objects, upstreams, routes and tenant trees (JSON or YAML)",
        ),
        ("fairvisor", ImportFormat::Fairvisor, "Fairvisor policy bundles and rule lists (JSON or YAML)"),
        ("envoy", ImportFormat::Envoy, "envoyproxy/ratelimit domains and descriptors (YAML)"),
        ("limitador", ImportFormat::Limitador, "Limitador's list of limits (YAML)"),
        (
            "rules",
            ImportFormat::Rules,
            "rows of a rule table: key_pattern, scope, rate_per_second … (CSV or JSON)",
        ),
        (
            "endpoints",
            ImportFormat::Endpoints,
            "limits by endpoint: limit_type, capacity, refill_rate … (JSON or YAML)",
        ),
    ];

    /// The format with this name on the command line.
    #[must_use]
    pub fn from_name(name: &str) -> Option<ImportFormat> {
        ImportFormat::NAMES.iter().find(|(known, ..)| *known == name).map(|(_, format, _)| *format)
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        let entry = ImportFormat::NAMES.iter().find(|(_, format, _)| *format == self);
        entry.map(|(name, ..)| *name).expect("every format has a name")
    }

    /// What a document of this format must contain, for error messages.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            ImportFormat::Oagw => {
                "a `rate_limit` object, or `upstreams`, `routes` or `tenants` with such objects"
            }
            ImportFormat::Fairvisor => "`policies` with rules, `rules`, a list of rules, or a single rule",
            ImportFormat::Envoy => {
                "`domain` and `descriptors`, and a `rate_limit` in at least one descriptor"
            }
            ImportFormat::Limitador => "a list of limits, each with `namespace`, `max_value` and `seconds`",
            ImportFormat::Rules => "rows with `key_pattern`, `rate_per_second` and `burst_capacity`",
            ImportFormat::Endpoints => "limits with `endpoint`, `limit_type`, `capacity` and `refill_rate`",
        }
    }
}
