//! A request as a policy sees it, wherever it came from.

mod descriptor;
mod facts;
mod priority;

pub use descriptor::{Descriptor, GateStage};
pub(crate) use descriptor::{PLAIN, PREFIXES};
pub use facts::{Facts, KeyBytes, query_value, values_of_key};
pub(crate) use facts::{SHARED_KEY, decoded_bytes};
pub use priority::Priority;

use std::borrow::Cow;
use std::net::IpAddr;

use smallvec::SmallVec;
use tidegate_core::Cost;

/// Names and values in their original order; a name may occur more than once.
pub type Pairs<'a> = SmallVec<[(Cow<'a, str>, Cow<'a, str>); 4]>;

/// The parts of a request that a policy can use. All of them are optional.
///
/// ```
/// use tidegate_policy::Request;
///
/// let request = Request::new().user("42").path("/api/videos?q=cats").header("x-api-key", "k");
/// assert_eq!(request.user.as_deref(), Some("42"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The tenant that the request belongs to.
    pub tenant: Option<Cow<'a, str>>,
    /// The user.
    pub user: Option<Cow<'a, str>>,
    /// The client application.
    pub client: Option<Cow<'a, str>>,
    /// The client's address. An IPv4 address mapped into IPv6 (`::ffff:203.0.113.7`) counts as the IPv4 address.
    pub ip: Option<IpAddr>,
    /// The plan of the user or tenant.
    pub plan: Option<Cow<'a, str>>,
    /// The service that the request goes to. If it is `None`, the policy finds it by the host.
    pub upstream: Option<Cow<'a, str>>,
    /// The HTTP method.
    pub method: Option<Cow<'a, str>>,
    /// The host that the request was sent to.
    pub host: Option<Cow<'a, str>>,
    /// The path as sent. A query after `?` is used if [`Request::query`] is `None`.
    pub path: Option<Cow<'a, str>>,
    /// The query, without `?`.
    pub query: Option<Cow<'a, str>>,
    /// The domain, as in Envoy's rate limit service.
    pub domain: Option<Cow<'a, str>>,
    /// Headers; upper and lower case of their names are equal.
    pub headers: Pairs<'a>,
    /// Verified claims of a token.
    pub jwt: Pairs<'a>,
    /// The state of the request's credential.
    pub credential: Credential,
    /// Any other descriptors.
    pub descriptors: Pairs<'a>,
    /// A factor for the cost that the policy sets.
    pub cost: Cost,
    /// How much the caller is trusted.
    pub trust: Option<Trust>,
    /// How urgent the request is. If it is `None`, the policy may read it from the request.
    pub priority: Option<Priority>,
    /// Do its headers come from somebody who may set a priority: a trusted proxy, or the caller of an API that is
    /// trusted anyway? A client could otherwise give itself one.
    pub headers_trusted: bool,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Request {
            tenant: None,
            user: None,
            client: None,
            ip: None,
            plan: None,
            upstream: None,
            method: None,
            host: None,
            path: None,
            query: None,
            domain: None,
            headers: Pairs::new(),
            jwt: Pairs::new(),
            credential: Credential::None,
            descriptors: Pairs::new(),
            cost: Cost::ONE,
            trust: None,
            priority: None,
            headers_trusted: false,
        }
    }
}

macro_rules! texts {
    ($($name:ident),*) => {$(
        #[doc = concat!("Sets `", stringify!($name), "`.")]
        #[must_use]
        pub fn $name(mut self, $name: impl Into<Cow<'a, str>>) -> Self {
            self.$name = Some($name.into());
            self
        }
    )*};
}

impl<'a> Request<'a> {
    /// A request of which nothing is known.
    pub fn new() -> Request<'a> {
        Request::default()
    }

    texts!(tenant, user, client, plan, upstream, method, host, path, query, domain);

    /// Sets the address.
    #[must_use]
    pub fn ip(mut self, ip: impl Into<IpAddr>) -> Self {
        self.ip = Some(ip.into().to_canonical());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a verified claim.
    #[must_use]
    pub fn claim(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        self.jwt.push((name.into(), value.into()));
        self
    }

    /// Adds a descriptor.
    #[must_use]
    pub fn descriptor(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        self.descriptors.push((name.into(), value.into()));
        self
    }

    /// Sets the state of the credential.
    #[must_use]
    pub fn credential(mut self, credential: Credential) -> Self {
        self.credential = credential;
        self
    }

    /// The same request with owned texts.
    #[must_use]
    pub fn into_owned(self) -> Request<'static> {
        let own = |text: Option<Cow<'_, str>>| text.map(|text| Cow::Owned(text.into_owned()));
        let own_pair = |(name, value): (Cow<'_, str>, Cow<'_, str>)| {
            (Cow::Owned(name.into_owned()), Cow::Owned(value.into_owned()))
        };
        let own_all = |pairs: Pairs<'_>| pairs.into_iter().map(own_pair).collect();
        Request {
            tenant: own(self.tenant),
            user: own(self.user),
            client: own(self.client),
            ip: self.ip,
            plan: own(self.plan),
            upstream: own(self.upstream),
            method: own(self.method),
            host: own(self.host),
            path: own(self.path),
            query: own(self.query),
            domain: own(self.domain),
            headers: own_all(self.headers),
            jwt: own_all(self.jwt),
            credential: self.credential,
            descriptors: own_all(self.descriptors),
            cost: self.cost,
            trust: self.trust,
            priority: self.priority,
            headers_trusted: self.headers_trusted,
        }
    }

    /// Sets the factor for the cost.
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets the trust in the caller.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = Some(trust);
        self
    }
}

/// The state of a request's credential, such as a bearer token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Credential {
    /// There is none. A request with claims counts as [`Credential::Valid`] nevertheless, because claims are verified.
    #[default]
    None,
    /// It was verified.
    Valid,
    /// It was rejected.
    Invalid,
    /// It is an API key that is not known, has expired or is disabled, and such keys are denied. Policies see it as
    /// [`Credential::Invalid`].
    UnknownKey,
}

impl Credential {
    /// All of them.
    pub const ALL: [Credential; 4] =
        [Credential::None, Credential::Valid, Credential::Invalid, Credential::UnknownKey];

    /// Its name in requests and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Credential::None => "none",
            Credential::Valid => "valid",
            Credential::Invalid => "invalid",
            Credential::UnknownKey => "unknown_key",
        }
    }

    /// The value of the descriptor `credential`.
    pub const fn descriptor(self) -> &'static str {
        match self {
            Credential::UnknownKey => Credential::Invalid.as_str(),
            other => other.as_str(),
        }
    }

    /// Parses that name.
    pub fn parse(text: &str) -> Option<Credential> {
        Credential::ALL.into_iter().find(|credential| credential.as_str() == text)
    }
}

/// How much a caller is trusted, in hundredths: from 0, not at all, to 100, fully.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trust(u8);

impl Trust {
    /// Not at all.
    pub const NONE: Trust = Trust(0);
    /// Fully.
    pub const FULL: Trust = Trust(100);

    /// From hundredths; `None` above 100.
    pub const fn from_hundredths(hundredths: u8) -> Option<Trust> {
        if hundredths <= 100 { Some(Trust(hundredths)) } else { None }
    }

    /// Parses a decimal number from 0 to 1, cut to hundredths. It does not use floating point, so `0.29` is exactly 29.
    pub fn parse(text: &str) -> Option<Trust> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(part) {
            return None;
        }
        match whole.trim_start_matches('0') {
            "" => {
                let digit = |index: usize| part.as_bytes().get(index).map_or(0, |b| b - b'0');
                Some(Trust(digit(0) * 10 + digit(1)))
            }
            "1" if part.bytes().all(|b| b == b'0') => Some(Trust::FULL),
            _ => None,
        }
    }

    /// In hundredths.
    pub const fn hundredths(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_cut_to_hundredths() {
        let parse = |text| Trust::parse(text).map(Trust::hundredths);
        for (text, hundredths) in
            [("0", 0), ("0.29", 29), ("0.299", 29), ("0.8", 80), ("1", 100), ("1.00", 100)]
        {
            assert_eq!(parse(text), Some(hundredths), "{text}");
        }
        for text in ["", ".", "1.01", "2", "-0", "0.", "NaN", "1e0", "0,5"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
