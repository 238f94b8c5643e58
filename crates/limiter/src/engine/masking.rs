//! Values that may be credentials are shown as a few characters and a hash.

use sha2::{Digest, Sha256};
use tidegate_policy::Descriptor;

/// May the values of a descriptor be credentials? Those of headers, queries, claims and custom descriptors may.
pub fn may_be_secret(descriptor: &Descriptor) -> bool {
    match descriptor {
        Descriptor::Header(_) | Descriptor::Query(_) | Descriptor::Jwt(_) | Descriptor::Custom(_) => true,
        Descriptor::Tenant
        | Descriptor::User
        | Descriptor::Client
        | Descriptor::Ip
        | Descriptor::Plan
        | Descriptor::Route
        | Descriptor::Method
        | Descriptor::Host
        | Descriptor::Path
        | Descriptor::Domain
        | Descriptor::Upstream
        | Descriptor::Credential => false,
    }
}

/// The first characters of a value (four, or half of a short one), and a hash by which equal values can be recognized.
pub fn masked(value: &str) -> String {
    if value.is_empty() {
        return String::new();
    }
    let few = (value.chars().count() / 2).min(4);
    let begins: String = value.chars().take(few).collect();
    let hash = Sha256::digest(value.as_bytes());
    format!("{begins}…#{:02x}{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2], hash[3])
}
