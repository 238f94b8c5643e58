//! Answers of the admin API, and how they are written.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, LINK, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::csv;
use super::shape::JsonShape;

/// An answer.
#[derive(Debug)]
pub(crate) struct ApiAnswer {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: AnswerBody,
    /// The version of the policy that it tells of.
    version: Option<u64>,
}

#[derive(Debug)]
enum AnswerBody {
    /// The text of a JSON document.
    Json(String),
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

/// What the writing of an answer depends on beside the answer.
#[derive(Clone, Copy)]
pub(crate) struct AnswerView<'r> {
    /// The format of a list.
    pub(super) format: AnswerFormat,
    /// The query of the request.
    pub(super) query: &'r str,
    /// The shape of the entries of a list.
    pub(super) shape: Option<&'r JsonShape>,
}

impl AnswerView<'_> {
    /// For an answer that is no list.
    pub(crate) const SINGLE: AnswerView<'static> =
        AnswerView { format: AnswerFormat::Json, query: "", shape: None };

    /// The value of `Link`: the same request with another cursor.
    fn link(&self, cursor: &str) -> String {
        let sent = form_urlencoded::parse(self.query.as_bytes()).filter(|(name, _)| name != "cursor");
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(sent)
            .append_pair("cursor", cursor)
            .finish();
        format!("<?{query}>; rel=\"next\"")
    }
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
        ApiAnswer::ok(AnswerBody::Json(serde_json::to_string(body).expect("answers are plain JSON")))
    }

    /// The same with JSON that is written already.
    pub(crate) fn json_text(text: String) -> ApiAnswer {
        ApiAnswer::ok(AnswerBody::Json(text))
    }

    fn ok(body: AnswerBody) -> ApiAnswer {
        ApiAnswer { status: StatusCode::OK, headers: Vec::new(), body, version: None }
    }

    /// 200 with a page of a list. `next` is the cursor of the next page, if there is one.
    pub(crate) fn list(items: Vec<Value>, next: Option<String>) -> ApiAnswer {
        ApiAnswer::ok(AnswerBody::List(items, next))
    }

    /// 200 with a text.
    pub(crate) fn text(text: String, media_type: &'static str) -> ApiAnswer {
        ApiAnswer::ok(AnswerBody::Text(text, media_type))
    }

    /// 200 with server-sent events, until their sender is dropped.
    pub(crate) fn events(feed: mpsc::Receiver<Bytes>) -> ApiAnswer {
        let feed = EventFeed(Arc::new(Mutex::new(Some(feed))));
        ApiAnswer::ok(AnswerBody::Events(feed))
    }

    /// The same with the status 201, and where the new entry is found.
    #[must_use]
    pub(crate) fn created(mut self, location: &str) -> ApiAnswer {
        self.status = StatusCode::CREATED;
        self.header(LOCATION, location)
    }

    /// The same with the version of the policy as `ETag`.
    #[must_use]
    pub(crate) fn version(mut self, version: u64) -> ApiAnswer {
        self.version = Some(version);
        self.header(ETAG, &format!("\"{version}\""))
    }

    /// The number of the version that it tells of.
    pub(crate) fn told_version(&self) -> Option<u64> {
        self.version
    }

    /// The same with one more header, unless its value cannot be sent.
    #[must_use]
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> ApiAnswer {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    pub(crate) fn render(self, view: &AnswerView<'_>) -> Response<Bytes> {
        let (mut next_page, mut feed) = (None, None);
        let (text, media_type) = match self.body {
            AnswerBody::Json(text) => (text + "\n", JSON),
            AnswerBody::Text(text, media_type) => (text, media_type),
            AnswerBody::Events(events) => {
                feed = Some(events);
                (String::new(), EVENTS)
            }
            AnswerBody::List(items, next) => {
                next_page.clone_from(&next);
                match view.format {
                    AnswerFormat::Json => {
                        (format!("{}\n", serde_json::json!({ "items": items, "next": next })), JSON)
                    }
                    AnswerFormat::Lines => (items.iter().map(|item| format!("{item}\n")).collect(), LINES),
                    AnswerFormat::Csv => (csv::text(&items, &csv::columns(view.shape)), CSV),
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
        if let Some(next) = next_page.and_then(|next| HeaderValue::from_str(&view.link(&next)).ok()) {
            headers.insert(LINK, next);
        }
        headers.extend(self.headers);
        response
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_comes_in_the_format_that_is_accepted() {
        let accepting = |text: &'static str| {
            AnswerFormat::of(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(text))]))
        };
        assert_eq!(accepting("text/html, text/csv;q=0.9, */*"), AnswerFormat::Csv);
        assert_eq!(accepting("application/x-ndjson"), AnswerFormat::Lines);
        assert_eq!(accepting("*/*"), AnswerFormat::Json);
        let page = || ApiAnswer::list(vec![json!({ "a": 1 })], Some("c:1".to_owned()));
        let view = |format, query| AnswerView { format, query, shape: None };
        let lines = page().render(&view(AnswerFormat::Lines, ""));
        assert_eq!(lines.body().as_ref(), b"{\"a\":1}\n");
        assert_eq!(lines.headers()[LINK], "<?cursor=c%3A1>; rel=\"next\"");
        let filtered = page().render(&view(AnswerFormat::Csv, "user=4%262&cursor=c0&limit=1"));
        assert_eq!(filtered.headers()[LINK], "<?user=4%262&limit=1&cursor=c%3A1>; rel=\"next\"");
        assert_eq!(
            page().render(&view(AnswerFormat::Json, "")).body().as_ref(),
            b"{\"items\":[{\"a\":1}],\"next\":\"c:1\"}\n"
        );
    }
}
