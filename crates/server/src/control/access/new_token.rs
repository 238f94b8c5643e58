//! How tokens are made: the secret, the row of the database, and the entry of the audit.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;
use tidegate_database::{AuditEntry, Database, DatabaseError, NewAnswer, StoredToken, UnixMillis};

use super::{AccessRole, NoRandomNumbers, SecretHash, new_secret};
use crate::control::api::rfc3339;
use crate::observe::EventName;

/// What a new token is to be.
#[derive(Clone, Debug)]
pub(crate) struct TokenRequest {
    pub(crate) role: AccessRole,
    pub(crate) tenant: Option<String>,
    pub(crate) expires: Option<UnixMillis>,
    pub(crate) description: Option<String>,
    /// Who wants it.
    pub(crate) actor: String,
    /// Why.
    pub(crate) reason: Option<String>,
    pub(crate) now: UnixMillis,
}

/// A token that was made. The secret is nowhere else.
#[derive(Debug)]
pub(crate) struct CreatedToken {
    pub(crate) id: String,
    pub(crate) secret: String,
}

/// Why a token was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateTokenError {
    #[error(transparent)]
    NoRandomNumbers(#[from] NoRandomNumbers),
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// Makes a token.
pub(crate) async fn create_token(
    database: &Database,
    request: TokenRequest,
) -> Result<CreatedToken, CreateTokenError> {
    let (created, token, entry) = prepared(request)?;
    database.create_token(token, entry).await?;
    Ok(created)
}

/// The same for a request with an idempotency key. `answer` makes what is remembered of the name of the token. `None`: the
/// key was used meanwhile, and there is no new token.
pub(crate) async fn create_token_once(
    database: &Database,
    request: TokenRequest,
    answer: impl FnOnce(&str) -> NewAnswer,
) -> Result<Option<CreatedToken>, CreateTokenError> {
    let (created, token, entry) = prepared(request)?;
    let remembered = answer(&created.id);
    Ok(database.create_token_once(token, entry, remembered).await?.then_some(created))
}

/// Makes the first admin token of a database; `None` if it has, or had, any token.
pub(crate) async fn first_token(
    database: &Database,
    now: UnixMillis,
) -> Result<Option<CreatedToken>, CreateTokenError> {
    let (created, token, entry) = prepared(TokenRequest {
        role: AccessRole::Admin,
        tenant: None,
        expires: None,
        description: Some("printed at the first start".to_owned()),
        actor: "tidegate".to_owned(),
        reason: Some("first start".to_owned()),
        now,
    })?;
    Ok(database.create_first_token(token, entry).await?.then_some(created))
}

/// The entry of the audit about a token.
pub(crate) fn token_entry(
    event: EventName,
    token: &StoredToken,
    actor: &str,
    reason: Option<String>,
    now: UnixMillis,
) -> AuditEntry {
    let detail = json!({
        "token": token.id,
        "role": token.role,
        "expires": token.expires_at.map(rfc3339),
        "description": token.description,
    });
    let mut entry = AuditEntry {
        time: now,
        event: event.as_str().to_owned(),
        severity: event.severity().as_str().to_owned(),
        actor: Some(actor.to_owned()),
        count: 1,
        first: now,
        last: now,
        kind: Some(token.role.clone()),
        reason,
        ..AuditEntry::default()
    };
    entry.personal.tenant.clone_from(&token.tenant);
    entry.personal.detail = Some(detail.to_string());
    entry
}

fn prepared(request: TokenRequest) -> Result<(CreatedToken, StoredToken, AuditEntry), NoRandomNumbers> {
    let TokenRequest { role, tenant, expires, description, actor, reason, now } = request;
    let (id, secret) = (new_id()?, new_secret("tga_")?);
    let token = StoredToken {
        id: id.clone(),
        sha256: *SecretHash::of(&secret).as_bytes(),
        role: role.as_str().to_owned(),
        tenant,
        description,
        created_at: now,
        created_by: actor.clone(),
        expires_at: expires,
        ..StoredToken::default()
    };
    let entry = token_entry(EventName::TokenCreated, &token, &actor, reason, now);
    Ok((CreatedToken { id, secret }, token, entry))
}

/// A name for something new: almost 72 random bits, so that none is given twice. It begins with a letter or a digit, because
/// commands take an argument that begins with `-` for a flag.
pub(crate) fn new_id() -> Result<String, NoRandomNumbers> {
    loop {
        let mut bytes = [0; 9];
        SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomNumbers)?;
        let id = URL_SAFE_NO_PAD.encode(bytes);
        // One name in 32 begins with `-` or `_`. Drawing it again keeps all others equally likely.
        if id.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            return Ok(id);
        }
    }
}
