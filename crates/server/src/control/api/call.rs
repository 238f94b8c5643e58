//! A call of a route: everything that its handler needs.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use serde::de::DeserializeOwned;
use tidegate::Nanos;
use tokio_util::sync::CancellationToken;

use super::query::Query;
use super::route::PathValues;
use super::shape::BodyShape;
use super::{ApiError, query::QUERY_TEXT_MAX};
use crate::control::ControlPlane;
use crate::control::access::Principal;
use crate::control::collection::Collection;
use crate::control::trials::TrialTurn;
use crate::node::Node;

/// A call whose sender may make it, and whose parameters are checked.
pub(crate) struct ApiCall {
    pub(crate) node: Arc<Node>,
    /// Who calls; `None` on routes that are open to everybody.
    pub(crate) principal: Option<Principal>,
    pub(crate) method: Method,
    /// The path and the query as they were sent.
    pub(crate) target: String,
    pub(crate) path: PathValues,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Cancelled when the caller has disconnected.
    pub(crate) left: CancellationToken,
    /// The collection of the route, if it has one.
    pub(crate) collection: Option<Collection>,
    /// The time of the call, by the wall clock.
    pub(crate) now: Nanos,
}

/// The media types of a policy in YAML.
const YAML: [&str; 3] = ["application/yaml", "application/x-yaml", "text/yaml"];

impl ApiCall {
    /// The control plane.
    pub(crate) fn control(&self) -> &ControlPlane {
        self.node.control().expect("a call is made only on a node with a control plane")
    }

    /// Who calls.
    pub(crate) fn principal(&self) -> &Principal {
        self.principal.as_ref().expect("the route needs a role, so the caller is known")
    }

    /// The body as text.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub(crate) fn text(&self) -> Result<&str, ApiError> {
        std::str::from_utf8(&self.body).map_err(|_| ApiError::body("", "the body is not UTF-8"))
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is not JSON, or has another shape.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        read_json(&self.body)
    }

    /// The same for a body that may be large: it is read where that delays nobody.
    ///
    /// # Errors
    /// The same.
    pub(crate) async fn json_of_any_length<T: DeserializeOwned + Send + 'static>(
        &self,
    ) -> Result<T, ApiError> {
        let body = self.body.clone();
        self.control().run_long(move || read_json(&body)).await.ok_or(ApiError::Internal)?
    }

    /// Waits for the turn to try a policy out, while the caller waits for that.
    ///
    /// # Errors
    /// When too many others wait for it, when it takes too long, and when the caller has disconnected.
    pub(crate) async fn trial_turn(&self) -> Result<TrialTurn, ApiError> {
        self.while_present(self.control().trials.turn()).await
    }

    /// The result of work that writes nothing. It ends when the caller disconnects, since nobody would read its answer.
    ///
    /// # Errors
    /// Those of the work, and when the caller has disconnected.
    pub(crate) async fn while_present<T>(
        &self,
        work: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        tokio::select! {
            biased;
            () = self.left.cancelled() => Err(ApiError::Unavailable("the client has disconnected".to_owned())),
            done = work => done,
        }
    }

    /// The reason for a change, from the query or the header.
    ///
    /// # Errors
    /// When the header is not plain text or too long.
    pub(crate) fn reason(&self) -> Result<Option<String>, ApiError> {
        let wrong = || ApiError::header("X-Reason", "it must be ASCII text of at most 1,024 bytes");
        let text = |header: &HeaderValue| {
            let text = header.to_str().ok().filter(|text| text.len() <= QUERY_TEXT_MAX);
            text.map(str::to_owned).ok_or_else(wrong)
        };
        // The header is checked also where the query has a reason.
        let told = self.headers.get("x-reason").map(text).transpose()?;
        Ok(self.query.get("reason").map(str::to_owned).or(told).filter(|reason| !reason.is_empty()))
    }

    /// Checks that the media type of the body is one that the route takes.
    pub(super) fn check_body(&self, shape: &BodyShape) -> Result<(), ApiError> {
        let wanted: &'static str = match shape {
            BodyShape::None => return Ok(()),
            BodyShape::Json(_) => "application/json",
            BodyShape::MergePatch(_) => "application/merge-patch+json",
            BodyShape::Policy | BodyShape::PolicyDraft => "application/json or application/yaml",
            BodyShape::Text => return Ok(()),
        };
        let sent = self.media_type();
        let is_right = match shape {
            BodyShape::Policy | BodyShape::PolicyDraft => {
                sent == "application/json" || YAML.contains(&sent.as_str())
            }
            _ => sent == wanted,
        };
        if is_right { Ok(()) } else { Err(ApiError::MediaType { wanted }) }
    }

    /// The media type of the body, without parameters, in lower case.
    pub(crate) fn media_type(&self) -> String {
        let sent = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        sent.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }
}

fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| ApiError::body(&pointer(error.path()), in_plain_words(&error.inner().to_string())))
        .and_then(|value| {
            reader.end().map_err(|error| ApiError::body("", &error))?;
            Ok(value)
        })
}

/// What serde says about a value, without the names of types of this program.
fn in_plain_words(told: &str) -> String {
    let Some((seen, rest)) = told.rsplit_once(", expected ") else { return told.to_owned() };
    let (wanted, place) = rest.rsplit_once(" at line ").unwrap_or((rest, ""));
    let whole = |most: u64| format!("a whole number, not negative and at most {most}");
    let wanted = match wanted {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" => whole(u64::MAX),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a string" | "string" => "a text".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a JSON object".to_owned(),
        object if object.starts_with("struct ") => "a JSON object".to_owned(),
        other => other.to_owned(),
    };
    let seen = match seen {
        "invalid type: map" => "an object is wrong here",
        "invalid type: sequence" => "a list is wrong here",
        // Of a list where an object is wanted, serde counts the elements.
        counted if counted.starts_with("invalid length ") && wanted == "a JSON object" => {
            "a list is wrong here"
        }
        other => other,
    };
    let place = if place.is_empty() { String::new() } else { format!(" at line {place}") };
    format!("{seen}, expected {wanted}{place}")
}

/// A JSON pointer to where a value is wrong.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            Segment::Unknown => {}
        }
    }
    pointer
}
