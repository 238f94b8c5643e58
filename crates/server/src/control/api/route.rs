//! A route of the admin API: its method and path, who may use it, what it takes and answers.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use http::Method;

use super::query::QueryField;
use super::shape::{AnswerShape, BodyShape, JsonShape};
use super::{ApiAnswer, ApiCall, ApiError};
use crate::control::access::AccessRole;
use crate::control::collection::Collection;

/// Routes that change something beside the policy, and take an idempotency key.
const ONCE: [&str; 7] =
    ["/tokens", "/candidates", "/trust/outcomes", "/keys/block", "/keys/allow", "/keys/reset", "/keys/grant"];

/// What a handler returns.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<ApiAnswer, ApiError>> + Send>>;

/// A route of the admin API.
pub(crate) struct ApiRoute {
    /// The method.
    pub(crate) method: Method,
    /// The path below the prefix; `{name}` is one segment.
    pub(crate) path: Cow<'static, str>,
    /// Who may use it.
    pub(crate) access: RouteAccess,
    /// What it does, in one line.
    pub(crate) about: Cow<'static, str>,
    /// The parameters in the query, in groups that routes share.
    pub(crate) query: &'static [&'static [QueryField]],
    /// What its body is.
    pub(crate) body: BodyShape,
    /// What it answers when all is well.
    pub(crate) answer: AnswerShape,
    /// The collection of the policy that it works on, if it does.
    pub(crate) collection: Option<Collection>,
    /// Answers a call.
    pub(crate) handler: fn(ApiCall) -> Answering,
}

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteAccess {
    /// Everybody, without a token.
    Open,
    /// Tokens with this role or a larger one.
    Role(AccessRole, TenantRule),
}

/// What a token may do that is restricted to a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TenantRule {
    /// Nothing: the route is about the whole system.
    Whole,
    /// It sees and changes what lies within the tenant's subtree; the handler checks that.
    Subtree,
    /// The same as other tokens: the route shows nothing of any tenant.
    Any,
}

/// The values of the `{…}` segments of a path, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathValues(Vec<String>);

impl PathValues {
    /// The value of the n-th `{…}` segment.
    pub(crate) fn get(&self, n: usize) -> &str {
        self.0.get(n).map(String::as_str).unwrap_or_default()
    }
}

impl ApiRoute {
    /// A route that takes neither a body nor parameters; the others are made from it.
    pub(crate) fn new(
        method: Method,
        path: &'static str,
        access: RouteAccess,
        about: &'static str,
        answer: AnswerShape,
        handler: fn(ApiCall) -> Answering,
    ) -> ApiRoute {
        ApiRoute {
            method,
            path: Cow::Borrowed(path),
            access,
            about: Cow::Borrowed(about),
            query: &[],
            body: BodyShape::None,
            answer,
            collection: None,
            handler,
        }
    }

    /// The values in a path of this route; `None` for another path. Segments of the table that are not values match
    /// themselves only.
    pub(crate) fn matches(&self, path: &str) -> Option<PathValues> {
        // Most routes differ in what comes before their first value.
        let before_values = self.path.split('{').next().unwrap_or_default();
        if !path.starts_with(before_values) {
            return None;
        }
        let (mut wanted, mut seen) = (self.path.split('/'), path.split('/'));
        let mut values = Vec::new();
        loop {
            match (wanted.next(), seen.next()) {
                (None, None) => return Some(PathValues(values)),
                (Some(wanted), Some(seen)) if wanted.starts_with('{') => values.push(decoded(seen)?),
                (Some(wanted), Some(seen)) if wanted == seen => {}
                _ => return None,
            }
        }
    }

    /// The names of the `{…}` segments.
    pub(crate) fn path_names(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Does it make a new version of the policy?
    pub(crate) fn is_versioned_write(&self) -> bool {
        let is_editor = matches!(self.access, RouteAccess::Role(AccessRole::Editor, _));
        // A draft is no version until it is promoted.
        let is_of_draft = ["/candidates", "/candidates/{id}"].contains(&&*self.path);
        is_editor
            && !is_of_draft
            && self.method != Method::GET
            && self.query().iter().any(|field| field.name == "reason")
    }

    /// Is a call that is repeated with the same `Idempotency-Key` done once?
    pub(crate) fn takes_idempotency_key(&self) -> bool {
        self.method == Method::POST && (self.is_versioned_write() || ONCE.contains(&&*self.path))
    }

    /// The shape of the entries that it lists, if it answers with a list.
    pub(crate) fn listed(&self) -> Option<&JsonShape> {
        match &self.answer {
            AnswerShape::List(shape) => Some(shape),
            _ => None,
        }
    }

    /// All parameters in the query.
    pub(crate) fn query(&self) -> Vec<&'static QueryField> {
        self.query.iter().copied().flatten().collect()
    }
}

/// A percent-encoded segment; `None` if it is empty or not UTF-8.
fn decoded(segment: &str) -> Option<String> {
    let text = percent_encoding::percent_decode_str(segment).decode_utf8().ok()?;
    Some(text.into_owned()).filter(|text| !text.is_empty())
}
