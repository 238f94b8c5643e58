//! Descriptors: the names that a policy has for the parts of a request.

use std::fmt;

/// A part of a request. Keys consist of descriptors, and conditions test them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Descriptor {
    /// `tenant`
    Tenant,
    /// `user`
    User,
    /// `client`
    Client,
    /// `ip`, also written `ip:address`
    Ip,
    /// `plan`
    Plan,
    /// `upstream`: the service that the request goes to, named by the request or found by its host.
    Upstream,
    /// `route`: the pattern of the entry of `routes` that matched; without one, the path.
    Route,
    /// `method`
    Method,
    /// `host`
    Host,
    /// `path`
    Path,
    /// `domain`
    Domain,
    /// `credential`: `none`, `valid` or `invalid`
    Credential,
    /// `header:<name>`, the name in lower case
    Header(Box<str>),
    /// `query:<name>`
    Query(Box<str>),
    /// `jwt:<claim>`
    Jwt(Box<str>),
    /// `descriptor:<name>`
    Custom(Box<str>),
}

/// When an entry of `block`, `allow` or `bursts` is checked. Entries that need no credential are checked first, so that
/// a client that is blocked by address cannot make a server verify tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GateStage {
    /// Before the credential is verified: entries by address, headers, path and the like.
    #[default]
    Unidentified,
    /// After that: entries by user, client, tenant, plan, claims, or the credential itself.
    Identified,
}

impl GateStage {
    /// The stage of an entry whose descriptors are known at these: the last of them.
    pub fn last_of(stages: impl IntoIterator<Item = GateStage>) -> GateStage {
        stages.into_iter().max().unwrap_or_default()
    }
}

/// The descriptors that have no argument.
pub(crate) const PLAIN: &[(&str, Descriptor)] = &[
    ("tenant", Descriptor::Tenant),
    ("user", Descriptor::User),
    ("client", Descriptor::Client),
    ("ip", Descriptor::Ip),
    ("plan", Descriptor::Plan),
    ("upstream", Descriptor::Upstream),
    ("route", Descriptor::Route),
    ("method", Descriptor::Method),
    ("host", Descriptor::Host),
    ("path", Descriptor::Path),
    ("domain", Descriptor::Domain),
    ("credential", Descriptor::Credential),
];

/// The prefixes of descriptors with an argument, before the colon.
pub(crate) const PREFIXES: &[&str] = &["header", "query", "jwt", "descriptor"];

/// The longest argument, in bytes.
pub(crate) const ARGUMENT_MAX: usize = 128;

impl Descriptor {
    /// When it is known: identity after the credential has been verified, everything else from the start. The route too,
    /// unless the policy's routes depend on an identity.
    pub fn stage(&self) -> GateStage {
        match self {
            Descriptor::Tenant
            | Descriptor::User
            | Descriptor::Client
            | Descriptor::Plan
            | Descriptor::Credential
            | Descriptor::Jwt(_) => GateStage::Identified,
            Descriptor::Ip
            | Descriptor::Upstream
            | Descriptor::Route
            | Descriptor::Method
            | Descriptor::Host
            | Descriptor::Path
            | Descriptor::Domain
            | Descriptor::Header(_)
            | Descriptor::Query(_)
            | Descriptor::Custom(_) => GateStage::Unidentified,
        }
    }

    /// Parses the name of a descriptor; `None` if there is no such descriptor.
    pub fn parse(text: &str) -> Option<Descriptor> {
        if text == "ip:address" {
            return Some(Descriptor::Ip);
        }
        if let Some((_, plain)) = PLAIN.iter().find(|(name, _)| *name == text) {
            return Some(plain.clone());
        }
        let (prefix, argument) = text.split_once(':')?;
        let fits = !argument.is_empty()
            && argument.len() <= ARGUMENT_MAX
            && argument.chars().all(|c| !c.is_control() && !c.is_whitespace());
        if !fits {
            return None;
        }
        match prefix {
            "header" => Some(Descriptor::Header(argument.to_ascii_lowercase().into())),
            "query" => Some(Descriptor::Query(argument.into())),
            "jwt" => Some(Descriptor::Jwt(argument.into())),
            "descriptor" => Some(Descriptor::Custom(argument.into())),
            _ => None,
        }
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Descriptor::Header(name) => write!(f, "header:{name}"),
            Descriptor::Query(name) => write!(f, "query:{name}"),
            Descriptor::Jwt(name) => write!(f, "jwt:{name}"),
            Descriptor::Custom(name) => write!(f, "descriptor:{name}"),
            plain => {
                let name = PLAIN.iter().find(|(_, known)| known == plain).map(|(name, _)| *name);
                f.write_str(name.expect("PLAIN has every descriptor without an argument"))
            }
        }
    }
}
