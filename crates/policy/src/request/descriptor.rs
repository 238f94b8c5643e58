//! The names under which a policy speaks of a request's parts.

use std::fmt;

/// A part of a request: what keys are made of and conditions look at.
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
    /// `route`: the pattern of `routes` that matched, else the path.
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

/// When an entry of `block`, `allow` or `bursts` is looked at. What needs no credential goes first, so
/// that whoever is blocked by address cannot make a server verify tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GateStage {
    /// Before the credential: by address, headers, path and the like.
    Unidentified,
    /// After it: by user, client, tenant, plan, claims, or the credential itself.
    Identified,
}

impl GateStage {
    /// Of an entry that goes by these: that of the last one to be known.
    pub fn of<'d>(descriptors: impl IntoIterator<Item = &'d Descriptor>) -> GateStage {
        descriptors.into_iter().map(Descriptor::stage).max().unwrap_or(GateStage::Unidentified)
    }
}

/// The descriptors that have no argument.
pub(crate) const PLAIN: &[(&str, Descriptor)] = &[
    ("tenant", Descriptor::Tenant),
    ("user", Descriptor::User),
    ("client", Descriptor::Client),
    ("ip", Descriptor::Ip),
    ("plan", Descriptor::Plan),
    ("route", Descriptor::Route),
    ("method", Descriptor::Method),
    ("host", Descriptor::Host),
    ("path", Descriptor::Path),
    ("domain", Descriptor::Domain),
    ("credential", Descriptor::Credential),
];

/// What stands before the colon of those that have one.
pub(crate) const PREFIXES: &[&str] = &["header", "query", "jwt", "descriptor"];

/// The longest name after the colon.
pub(crate) const ARGUMENT_MAX: usize = 128;

impl Descriptor {
    /// From when on it is known: who asks is known once the credential has been looked at, all else at
    /// once.
    pub fn stage(&self) -> GateStage {
        match self {
            Descriptor::Tenant
            | Descriptor::User
            | Descriptor::Client
            | Descriptor::Plan
            | Descriptor::Credential
            | Descriptor::Jwt(_) => GateStage::Identified,
            Descriptor::Ip
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

    /// Reads what a document says; `None` if it is no descriptor.
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
                f.write_str(name.expect("every descriptor without an argument is in the list"))
            }
        }
    }
}
