//! The error of parsing a JSON request.

/// Why a text is not a request. The message names the wrong member.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    pub(super) message: String,
    /// The column at which it was noticed, from one.
    pub column: usize,
}

impl RequestError {
    /// An error of serde_json, with the position cut off the message.
    pub(super) fn of(error: &serde_json::Error) -> RequestError {
        let full = error.to_string();
        let message = full.split(" at line ").next().unwrap_or_default().to_owned();
        RequestError { message, column: error.column().max(1) }
    }

    /// The path of the wrong member, such as `requests[3].cost`. It is parsed from the message, since serde_json errors
    /// carry nothing else.
    pub fn field(&self) -> Option<String> {
        let mut path = String::new();
        let mut rest = self.message.as_str();
        loop {
            let unknown = rest.strip_prefix("unknown member ");
            let Some((name, after)) =
                unknown.unwrap_or(rest).strip_prefix('`').and_then(|rest| rest.split_once('`'))
            else {
                break;
            };
            let about = [": ", " is there twice", " is missing"];
            if unknown.is_none() && !about.iter().any(|about| after.starts_with(about)) {
                break;
            }
            path.push_str(if path.is_empty() { "" } else { "." });
            path.push_str(name);
            rest = after.strip_prefix(": ").unwrap_or_default();
        }
        (!path.is_empty()).then_some(path)
    }
}
