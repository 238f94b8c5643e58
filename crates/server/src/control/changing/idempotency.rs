//! `Idempotency-Key`: a POST that is repeated with the same key is done once, and its answer is given again.

use http::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tidegate_database::{ChangeAnswer, Database, NewAnswer, Remembered};

use crate::control::api::{ApiAnswer, ApiCall, ApiError};
use crate::control::startup::unix_millis;

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// The longest answer that is remembered with its warnings, in bytes. A longer one is remembered without them.
const ANSWER_BYTES_MAX: usize = 64 * 1_024;

/// The key of a request, and what the request was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdempotencyKey {
    /// Of the key and of who uses it: two callers may use the same key.
    key_hash: [u8; 32],
    request_hash: [u8; 32],
}

impl IdempotencyKey {
    /// The key of a call, if it has one. Only POST has: the other methods do the same when they are repeated.
    ///
    /// # Errors
    /// When the header is not a key.
    pub(crate) fn of(call: &ApiCall) -> Result<Option<IdempotencyKey>, ApiError> {
        let Some(header) = call.headers.get("idempotency-key").filter(|_| call.method == Method::POST) else {
            return Ok(None);
        };
        let key = header.as_bytes();
        if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.iter().all(u8::is_ascii_graphic) {
            let wanted = "it must have 1 to 255 visible ASCII characters and no spaces";
            return Err(ApiError::header("Idempotency-Key", wanted));
        }
        let precondition = call.headers.get_all("if-match").iter().map(|value| value.as_bytes());
        let request: Vec<&[u8]> =
            [call.target.as_bytes(), &call.body].into_iter().chain(precondition).collect();
        let key_hash = hash(&[call.principal().actor.as_bytes(), key]);
        Ok(Some(IdempotencyKey { key_hash, request_hash: hash(&request) }))
    }

    /// The refusal of a key that was used for another request.
    pub(crate) fn conflict() -> ApiError {
        ApiError::Conflict(
            "this Idempotency-Key was used for another request in the last 24 hours: use another one"
                .to_owned(),
        )
    }

    /// The hash of the key and of who uses it, and that of the request.
    pub(crate) fn hashes(&self) -> ([u8; 32], [u8; 32]) {
        (self.key_hash, self.request_hash)
    }

    /// A mark of a part of the request: the same each time that it is repeated.
    pub(crate) fn part(&self, number: usize) -> [u8; 32] {
        hash(&[&self.key_hash, &self.request_hash, &(number as u64).to_le_bytes()])
    }

    /// The answer to an earlier change with this key.
    ///
    /// # Errors
    /// When the key was used for another request, or the database fails.
    pub(super) async fn answered(
        &self,
        database: &Database,
        call: &ApiCall,
    ) -> Result<Option<ApiAnswer>, ApiError> {
        Ok(self.remembered(database, call).await?.as_ref().map(replayed))
    }

    /// What is remembered of the answer to an earlier request with this key: an object with `location` and `body`.
    ///
    /// # Errors
    /// When the key was used for another request, or the database fails.
    pub(crate) async fn remembered(
        &self,
        database: &Database,
        call: &ApiCall,
    ) -> Result<Option<Value>, ApiError> {
        let known = database.remembered(&self.key_hash, &self.request_hash, unix_millis(call.now)).await?;
        match known {
            None => Ok(None),
            Some(Remembered::Conflict) => Err(IdempotencyKey::conflict()),
            Some(Remembered::Answer(answer)) => {
                serde_json::from_str(&answer.body).map(Some).map_err(|_| ApiError::Internal)
            }
        }
    }

    /// What is remembered of an earlier change of live state with this key: by the database, or else by this node. `None`
    /// in it: the change was begun, and is not known to have ended.
    ///
    /// # Errors
    /// When the key was used for another request, or the database fails.
    pub(crate) async fn earlier(&self, call: &ApiCall) -> Result<Option<Option<Value>>, ApiError> {
        let known = match call.control().database() {
            Some(database) => self.remembered(database, call).await?,
            None => match call.control().live().answers().find(&self.key_hash, unix_millis(call.now)) {
                Some(known) if known.request_hash != self.request_hash => {
                    return Err(IdempotencyKey::conflict());
                }
                known => known.and_then(|known| serde_json::from_str(&known.body).ok()),
            },
        };
        let body = |mut known: Value| Some(known["body"].take()).filter(|body| !body.is_null());
        Ok(known.map(body))
    }

    /// What to remember of a change of live state: that it was begun (`None`), or its answer, which must have no secret.
    pub(crate) fn change_answer(&self, answer: Option<&Value>, ends: bool) -> ChangeAnswer {
        let body = answer.map_or_else(unfinished_body, |answer| body_of(answer).to_string());
        ChangeAnswer { key_hash: self.key_hash, request_hash: self.request_hash, body, ends }
    }

    /// The answer to remember. `answer` makes its body of the number of the version. It must have no secret.
    pub(crate) fn answer(
        self,
        location: Option<String>,
        answer: impl FnOnce(u64) -> Value + Send + 'static,
    ) -> NewAnswer {
        let status = if location.is_some() { StatusCode::CREATED } else { StatusCode::OK };
        let body = move |version| {
            let mut whole = json!({ "location": location, "body": answer(version) });
            let text = whole.to_string();
            if text.len() <= ANSWER_BYTES_MAX {
                return text;
            }
            whole["body"]["warnings"] = json!([]);
            whole.to_string()
        };
        NewAnswer {
            key_hash: self.key_hash,
            request_hash: self.request_hash,
            status: status.as_u16(),
            body: Box::new(body),
        }
    }
}

/// What is remembered of a change of live state that was begun, and is not known to have ended.
pub(crate) fn unfinished_body() -> String {
    body_of(&Value::Null).to_string()
}

fn body_of(answer: &Value) -> Value {
    json!({ "location": null, "body": answer })
}

fn replayed(stored: &Value) -> ApiAnswer {
    let answer =
        ApiAnswer::json(&stored["body"]).version(stored["body"]["version"].as_u64().unwrap_or_default());
    match stored["location"].as_str() {
        Some(location) => answer.created(location),
        None => answer,
    }
}

/// Of parts, whose borders count.
fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
