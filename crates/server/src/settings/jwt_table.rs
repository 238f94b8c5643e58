//! The table of `jwt`.

use tidegate_document::{ObjectShape, Shape, ShapeField, WordShape};

use super::table::{SECRET_MAX, TEXT_MAX};

pub(super) static JWT: ObjectShape = ObjectShape {
    name: "jwt",
    about: "How bearer tokens of clients are verified: with the keys of a JWKS file, or with one key.",
    fields: &[&[
        ShapeField::new(
            "jwks",
            Shape::Text(TEXT_MAX),
            "File with a JSON Web Key Set. It is reloaded when it changes.",
        )
        .also(&["jwks_file", "keys"]),
        ShapeField::new("key", Shape::Secret(SECRET_MAX), "One key: a secret, or a public key as PEM.")
            .also(&["secret", "public_key"]),
        ShapeField::new("algorithm", Shape::Word(ALGORITHMS), "The algorithm of `key`.").also(&["alg"]),
        ShapeField::new("issuer", Shape::Text(TEXT_MAX), "The required `iss`.").also(&["iss"]),
        ShapeField::new("audience", Shape::Text(TEXT_MAX), "The value that `aud` must contain.")
            .also(&["aud"]),
        ShapeField::new("invalid", Shape::Word(INVALID), "What happens to a request with an invalid token.")
            .or("deny")
            .also(&["on_invalid", "invalid_token"]),
    ]],
    open_fields: None,
    shorthand: None,
};

static INVALID: &[WordShape] = &[
    WordShape::new("deny", "401 with `WWW-Authenticate`, before any limit")
        .also(&["reject", "refuse", "401"]),
    WordShape::new("anonymous", "it continues without claims; the descriptor `credential` is `invalid`")
        .also(&["ignore", "allow", "none"]),
];

static ALGORITHMS: &[WordShape] = &[
    WordShape::new("HS256", "HMAC with SHA-256"),
    WordShape::new("HS384", "HMAC with SHA-384"),
    WordShape::new("HS512", "HMAC with SHA-512"),
    WordShape::new("RS256", "RSA (PKCS #1) with SHA-256"),
    WordShape::new("RS384", "RSA (PKCS #1) with SHA-384"),
    WordShape::new("RS512", "RSA (PKCS #1) with SHA-512"),
    WordShape::new("PS256", "RSA (PSS) with SHA-256"),
    WordShape::new("PS384", "RSA (PSS) with SHA-384"),
    WordShape::new("PS512", "RSA (PSS) with SHA-512"),
    WordShape::new("ES256", "ECDSA on P-256 with SHA-256"),
    WordShape::new("ES384", "ECDSA on P-384 with SHA-384"),
    WordShape::new("EdDSA", "Ed25519"),
];
