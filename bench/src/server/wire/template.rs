//! A request with a placeholder for the key, so that writing requests costs the client hardly any time.

/// The placeholder for the digits of a key.
const HOLE: &[u8] = b"########";

/// The prefix of a key; the digits follow.
pub(super) const KEY: &str = "user:########";

/// The user of requests with this key.
pub(crate) fn user_of(key: u32) -> String {
    format!("user:{key:08}")
}

/// The same as a tenant.
pub(super) const TENANT: &str = "tenant-########";

/// The bytes of a request, with or without a placeholder.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    hole: usize,
}

impl Template {
    /// A request with one placeholder, or with none.
    pub(super) fn new(bytes: impl Into<Vec<u8>>) -> Template {
        let bytes = bytes.into();
        let hole = bytes.windows(HOLE.len()).position(|seen| seen == HOLE);
        Template { hole: hole.unwrap_or(bytes.len()), bytes }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the request for this key.
    pub(super) fn write(&self, key: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let mut rest = key;
        if let Some(digits) = out[start + self.hole..].get_mut(..HOLE.len()) {
            for digit in digits.iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_goes_where_the_hole_is() {
        let template = Template::new(format!("<{KEY}>"));
        let mut out = b"before ".to_vec();
        template.write(1_234, &mut out);
        template.write(99_999_999, &mut out);
        assert_eq!(out, b"before <user:00001234><user:99999999>");
        assert_eq!(template.len(), 15);
        assert_eq!(user_of(1_234), "user:00001234");
    }

    #[test]
    fn a_question_about_nobody_has_no_hole() {
        let mut out = Vec::new();
        Template::new("PING").write(7, &mut out);
        assert_eq!(out, b"PING");
    }
}
