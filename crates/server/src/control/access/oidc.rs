//! Tokens of an identity provider (OpenID Connect): verified by its keys, with the role and the tenant from claims.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tidegate::Nanos;

use super::{AccessRole, Principal};
use crate::bounds::budget::client_network;
use crate::control::startup::unix_millis;
use crate::identity::{Claims, IdentityError, Tokens};
use crate::settings::OidcSettings;

/// The longest subject that the name in the audit holds, in characters.
const SUBJECT_CHARS_MAX: usize = 128;

/// The tenant in a claim that stands for all tenants.
const EVERY_TENANT: &str = "*";

/// Verifies tokens of an identity provider.
pub(crate) struct Oidc {
    tokens: Tokens,
    settings: OidcSettings,
}

/// The keys of the identity provider cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}", describe(.0))]
pub(crate) struct OidcError(#[from] IdentityError);

/// The message of an error in the provider's keys: as for `jwt`, but with the name of this setting.
fn describe(error: &IdentityError) -> String {
    match error {
        IdentityError::Unreadable { file, error } => {
            format!("auth.oidc.jwks: cannot read {}: {error}", file.display())
        }
        IdentityError::NoKeys { file, why } => format!("auth.oidc.jwks: {}: {why}", file.display()),
        other => format!("auth.oidc: {other}"),
    }
}

/// Has a token the three parts of one that an identity provider signs?
pub(super) fn looks_like_one(token: &[u8]) -> bool {
    token.iter().filter(|byte| **byte == b'.').count() == 2
}

impl Oidc {
    /// Loads the keys.
    pub(crate) fn load(settings: &OidcSettings) -> Result<Oidc, OidcError> {
        Ok(Oidc { tokens: Tokens::new(&settings.jwt)?, settings: settings.clone() })
    }

    /// Loads the keys again.
    pub(crate) fn reload(&self) -> Result<(), OidcError> {
        Ok(self.tokens.reload()?)
    }

    /// Who a token stands for; `None`, and a line in the log, if it is not valid or gives no role.
    pub(super) fn holder_of(&self, token: &[u8], address: IpAddr, wall: Nanos) -> Option<Principal> {
        let claims = match self.tokens.verify(token, Some(client_network(address)), wall) {
            Ok(claims) => claims,
            Err(rejection) => {
                tracing::info!(why = %rejection, "a token of the identity provider is not valid");
                return None;
            }
        };
        match self.principal(&claims) {
            Ok(principal) => Some(principal),
            Err(why) => {
                tracing::info!(why, "a token of the identity provider gives no access");
                None
            }
        }
    }

    fn principal(&self, claims: &Claims) -> Result<Principal, &'static str> {
        let subject = claims.all("sub").next().ok_or("it has no `sub`")?;
        // Control characters would let one name look like another.
        let subject: String = subject.chars().filter(|c| !c.is_control()).take(SUBJECT_CHARS_MAX).collect();
        let roles = claims.all(&self.settings.role_claim).filter_map(|value| self.role(value));
        let role = roles.max().ok_or("its claims give no role")?;
        let tenant = match &self.settings.tenant_claim {
            None => None,
            // A claim that is missing or ambiguous must not open everything.
            Some(claim) => {
                let mut tenants = claims.all(claim);
                match (tenants.next(), tenants.next()) {
                    (Some(EVERY_TENANT), None) => None,
                    (Some(tenant), None) => Some(Arc::from(tenant)),
                    _ => return Err("it does not name one tenant"),
                }
            }
        };
        let expires = Some(unix_millis(claims.expires()));
        Ok(Principal { actor: format!("oidc:{subject}").into(), role, tenant, expires })
    }

    fn role(&self, value: &str) -> Option<AccessRole> {
        self.settings.roles.iter().find(|(name, _)| name == value).map(|(_, role)| *role)
    }
}

/// Prints no keys.
impl fmt::Debug for Oidc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Oidc").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidegate::engine::InvalidCredentials;

    use super::*;
    use crate::identity::testing::Signer;
    use crate::settings::{Jwt, JwtKey};

    const NOW: Nanos = Nanos::from_secs(1_800_000_000);

    fn provider(signer: &Signer, tenant_claim: Option<&str>, name: &str) -> Oidc {
        let file = std::env::temp_dir().join(format!("tidegate-oidc-{}-{name}.json", std::process::id()));
        std::fs::write(&file, json!({ "keys": [signer.jwk("k1")] }).to_string()).unwrap();
        let settings = OidcSettings {
            jwt: Jwt {
                key: JwtKey::Jwks(file.clone()),
                issuer: Some("https://id.example".to_owned()),
                audience: Some("tidegate".to_owned()),
                invalid: InvalidCredentials::Deny,
            },
            role_claim: "groups".to_owned(),
            roles: vec![("sre".to_owned(), AccessRole::Operator), ("root".to_owned(), AccessRole::Admin)],
            tenant_claim: tenant_claim.map(str::to_owned),
        };
        let provider = Oidc::load(&settings).unwrap();
        std::fs::remove_file(file).unwrap();
        provider
    }

    fn claims(more: Value) -> Value {
        let mut claims = json!({
            "iss": "https://id.example", "aud": ["other", "tidegate"], "sub": "ann", "exp": 1_800_000_060,
            "groups": ["staff", "sre"],
        });
        for (name, value) in more.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    #[test]
    fn a_signed_token_has_the_largest_role_of_its_claim() {
        for algorithm in ["ES256", "RS256", "EdDSA"] {
            let signer = Signer::new(algorithm);
            let provider = provider(&signer, None, algorithm);
            let header = json!({ "alg": algorithm, "kid": "k1" });
            let held = |claims: Value| {
                let token = signer.token(&header, &claims);
                assert!(looks_like_one(token.as_bytes()));
                provider.holder_of(token.as_bytes(), IpAddr::from([192, 0, 2, 1]), NOW)
            };
            let ann = held(claims(json!({}))).expect("it is valid");
            assert_eq!((&*ann.actor, ann.role, &ann.tenant), ("oidc:ann", AccessRole::Operator, &None));
            assert_eq!(ann.expires.map(|end| end.get()), Some(1_800_000_060_000));
            assert_eq!(held(claims(json!({ "groups": ["sre", "root"] }))).unwrap().role, AccessRole::Admin);
            assert_eq!(held(claims(json!({ "groups": "root" }))).unwrap().role, AccessRole::Admin);
            for wrong in [
                json!({ "iss": "https://evil.example" }),
                json!({ "aud": "other" }),
                json!({ "exp": 1_799_999_000 }),
                json!({ "groups": ["staff"] }),
                json!({ "groups": { "root": true } }),
                json!({ "sub": null }),
            ] {
                assert_eq!(held(claims(wrong.clone())), None, "{wrong}");
            }
            let forged =
                Signer::new("ES256").token(&json!({ "alg": "ES256", "kid": "k1" }), &claims(json!({})));
            assert_eq!(provider.holder_of(forged.as_bytes(), IpAddr::from([192, 0, 2, 1]), NOW), None);
        }
    }

    #[test]
    fn the_claim_of_the_tenant_restricts_and_never_opens() {
        let signer = Signer::new("ES256");
        let provider = provider(&signer, Some("tenant"), "tenant");
        let held = |tenant: Value| {
            let token = signer.token(&json!({ "alg": "ES256" }), &claims(json!({ "tenant": tenant })));
            provider.holder_of(token.as_bytes(), IpAddr::from([192, 0, 2, 1]), NOW).map(|who| who.tenant)
        };
        assert_eq!(held(json!("acme")), Some(Some("acme".into())));
        assert_eq!(held(json!("*")), Some(None));
        for none in [json!(null), json!([]), json!(["acme", "other"]), json!({ "id": "acme" })] {
            assert_eq!(held(none.clone()), None, "{none}");
        }
    }

    #[test]
    fn errors_name_the_setting() {
        let jwt = Jwt {
            key: JwtKey::Jwks("/nowhere/jwks.json".into()),
            issuer: None,
            audience: None,
            invalid: InvalidCredentials::Deny,
        };
        let settings =
            OidcSettings { jwt, role_claim: "r".to_owned(), roles: Vec::new(), tenant_claim: None };
        let error = Oidc::load(&settings).unwrap_err().to_string();
        assert!(error.starts_with("auth.oidc.jwks: cannot read /nowhere/jwks.json"), "{error}");
    }
}
