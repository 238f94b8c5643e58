//! The section `auth` of the settings as a table.

use tidegate_document::{ObjectShape, Shape, ShapeField};

use super::oidc::OIDC;
use super::table::SECRET_MAX;

pub(super) static AUTH: ObjectShape = ObjectShape {
    name: "auth",
    about: "Secrets that callers must send, and who else may administer. Environment variables can set the secrets instead.",
    fields: &[&[
        ShapeField::new(
            "http_token",
            Shape::Secret(SECRET_MAX),
            "Bearer token that `/v1/refund`, `/v1/throttle` and `/v1/identify` require. Without it they are off where \
             `http` is not on loopback.",
        )
        .also(&["token", "bearer"]),
        ShapeField::new(
            "admin_token",
            Shape::Secret(SECRET_MAX),
            "Token with the role `admin` for the admin API, of at least 20 characters. With a database it works beside the tokens that are kept \
             there, also while the database is away, and cannot be revoked but by changing the settings.",
        )
        .or("without a database, a new one at each start, which is printed"),
        ShapeField::new("oidc", Shape::Object(&OIDC), "An identity provider whose tokens the admin API accepts.")
            .or("none")
            .also(&["openid", "sso", "openid_connect"]),
        ShapeField::new(
            "resp_password",
            Shape::Secret(SECRET_MAX),
            "Password of the `resp` listener; required where it is not on loopback.",
        )
        .also(&["password", "redis_password", "requirepass"]),
    ]],
    open_fields: None,
    shorthand: None,
};
