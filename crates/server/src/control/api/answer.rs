//! Answers of the admin API, and how they are written.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, LINK, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;

/// An answer.
#[derive(Debug)]
pub(crate) struct ApiAnswer {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: AnswerBody,
}

#[derive(Debug)]
enum AnswerBody {
    Json(Value),
    /// A page of a list, and the cursor of the next one.
    List(Vec<Value>, Option<String>),
    /// A text, and its media type.
    Text(String, &'static str),
    /// Server-sent events that follow one by one.
    Events(EventFeed),
}

/// Events that follow after the head of an answer, for whoever writes the answer to the connection.
#[derive(Clone, Debug)]
pub(crate) struct EventFeed(Arc<Mutex<Option<mpsc::Receiver<Bytes>>>>);

impl EventFeed {
    /// The events; `None` if they were taken already.
    pub(crate) fn take(&self) -> Option<mpsc::Receiver<Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The format that the client wants a list in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerFormat {
    Json,
    Csv,
    Lines,
}

pub(super) const CSV: &str = "text/csv";
pub(super) const LINES: &str = "application/x-ndjson";
pub(super) const YAML: &str = "application/yaml";
pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";

impl AnswerFormat {
    /// The first format that `Accept` names; JSON without one.
    pub(crate) fn of(headers: &HeaderMap) -> AnswerFormat {
        let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let format = accepted.split(',').find_map(|one| match one.split(';').next()?.trim() {
            CSV => Some(AnswerFormat::Csv),
            LINES => Some(AnswerFormat::Lines),
            JSON => Some(AnswerFormat::Json),
            _ => None,
        });
        format.unwrap_or(AnswerFormat::Json)
    }
}

impl ApiAnswer {
    /// 200 with JSON.
    pub(crate) fn json(body: &impl Serialize) -> ApiAnswer {
        let body = serde_json::to_value(body).expect("answers are plain JSON");
        ApiAnswer { status: StatusCode::OK, headers: Vec::new(), body: AnswerBody::Json(body) }
    }

    /// 200 with a page of a list. `next` is the cursor of the next page, if there is one.
    pub(crate) fn list(items: Vec<Value>, next: Option<String>) -> ApiAnswer {
        ApiAnswer { status: StatusCode::OK, headers: Vec::new(), body: AnswerBody::List(items, next) }
    }

    /// 200 with a text.
    pub(crate) fn text(text: String, media_type: &'static str) -> ApiAnswer {
        ApiAnswer { status: StatusCode::OK, headers: Vec::new(), body: AnswerBody::Text(text, media_type) }
    }

    /// 200 with server-sent events, until their sender is dropped.
    pub(crate) fn events(feed: mpsc::Receiver<Bytes>) -> ApiAnswer {
        let feed = EventFeed(Arc::new(Mutex::new(Some(feed))));
        ApiAnswer { status: StatusCode::OK, headers: Vec::new(), body: AnswerBody::Events(feed) }
    }

    /// The same with the status 201, and where the new entry is found.
    #[must_use]
    pub(crate) fn created(mut self, location: &str) -> ApiAnswer {
        self.status = StatusCode::CREATED;
        self.header(LOCATION, location)
    }

    /// The same with the version of the policy as `ETag`.
    #[must_use]
    pub(crate) fn version(self, version: u64) -> ApiAnswer {
        self.header(ETAG, &format!("\"{version}\""))
    }

    /// The same with one more header, unless its value cannot be sent.
    #[must_use]
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> ApiAnswer {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    pub(crate) fn render(self, format: AnswerFormat) -> Response<Bytes> {
        let (mut next_page, mut feed) = (None, None);
        let (text, media_type) = match self.body {
            AnswerBody::Json(body) => (format!("{body}\n"), JSON),
            AnswerBody::Text(text, media_type) => (text, media_type),
            AnswerBody::Events(events) => {
                feed = Some(events);
                (String::new(), EVENTS)
            }
            AnswerBody::List(items, next) => {
                next_page.clone_from(&next);
                match format {
                    AnswerFormat::Json => {
                        (format!("{}\n", serde_json::json!({ "items": items, "next": next })), JSON)
                    }
                    AnswerFormat::Lines => (items.iter().map(|item| format!("{item}\n")).collect(), LINES),
                    AnswerFormat::Csv => (csv(&items), CSV),
                }
            }
        };
        let mut response = Response::new(Bytes::from(text));
        *response.status_mut() = self.status;
        feed.into_iter().for_each(|feed| _ = response.extensions_mut().insert(feed));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        // Formats other than JSON have no place for the cursor in their body.
        if let Some(next) =
            next_page.and_then(|next| HeaderValue::from_str(&format!("<?cursor={next}>; rel=\"next\"")).ok())
        {
            headers.insert(LINK, next);
        }
        headers.extend(self.headers);
        response
    }
}

/// Entries as CSV (RFC 4180): a column for each member that any of them has, in the order in which they appear.
fn csv(items: &[Value]) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for name in items.iter().filter_map(Value::as_object).flat_map(|item| item.keys()) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let line = |cells: Vec<String>| cells.join(",") + "\r\n";
    let mut text = line(columns.iter().map(|name| cell(name)).collect());
    for item in items {
        text.push_str(&line(columns.iter().map(|name| value_cell(item.get(name))).collect()));
    }
    text
}

fn value_cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => cell(text),
        Some(other) => cell(&other.to_string()),
    }
}

/// A cell. Spreadsheets take a cell that begins with one of these characters for a formula, and what clients have sent
/// must not be run: such a cell begins with an apostrophe.
fn cell(text: &str) -> String {
    let text = match text.chars().next() {
        Some('=' | '+' | '-' | '@' | '\t' | '\r') if text.parse::<f64>().is_err() => format!("'{text}"),
        _ => text.to_owned(),
    };
    match text.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn csv_has_every_member_and_runs_nothing() {
        let items = [
            json!({ "a": "x,\"y\"", "b": -1 }),
            json!({ "c": [1], "a": "=HYPERLINK(1)" }),
            json!({ "a": null }),
        ];
        assert_eq!(csv(&items), "a,b,c\r\n\"x,\"\"y\"\"\",-1,\r\n'=HYPERLINK(1),,[1]\r\n,,\r\n");
    }

    #[test]
    fn a_list_comes_in_the_format_that_is_accepted() {
        let accepting = |text: &'static str| {
            AnswerFormat::of(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(text))]))
        };
        assert_eq!(accepting("text/html, text/csv;q=0.9, */*"), AnswerFormat::Csv);
        assert_eq!(accepting("application/x-ndjson"), AnswerFormat::Lines);
        assert_eq!(accepting("*/*"), AnswerFormat::Json);
        let page = || ApiAnswer::list(vec![json!({ "a": 1 })], Some("c1".to_owned()));
        let lines = page().render(AnswerFormat::Lines);
        assert_eq!(lines.body().as_ref(), b"{\"a\":1}\n");
        assert_eq!(lines.headers()[LINK], "<?cursor=c1>; rel=\"next\"");
        assert_eq!(
            page().render(AnswerFormat::Json).body().as_ref(),
            b"{\"items\":[{\"a\":1}],\"next\":\"c1\"}\n"
        );
    }
}
