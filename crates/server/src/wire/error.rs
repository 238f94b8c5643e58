//! Why a text is not what it should be.

/// Why a text is no request: names the member that is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    pub(super) message: String,
    /// Where in the line it was noticed, from one.
    pub column: usize,
}

impl RequestError {
    /// What the reader of JSON says; the place is told apart from the message.
    pub(super) fn of(error: &serde_json::Error) -> RequestError {
        let said = error.to_string();
        let message = said.split(" at line ").next().unwrap_or_default().to_owned();
        RequestError { message, column: error.column().max(1) }
    }

    /// The member that is wrong, with what it is in: `requests[3].cost`. It is read off the message,
    /// since that is all that a reader of JSON passes on.
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
