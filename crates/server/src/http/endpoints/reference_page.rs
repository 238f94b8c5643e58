//! Renders the reference page of the HTTP listener from the table of endpoints.

use std::fmt::Write;

use super::{ENDPOINTS, EndpointAccess};
use crate::bounds::{
    BODY_TIMEOUT, CLIENT_READ_TIMEOUT, HEAD_BYTES_MAX, HEAD_TIMEOUT, HEADERS_MAX, HTTP2_HEAD_BYTES_MAX,
    IDLE_TIMEOUT, STREAMS_MAX,
};

const INTRODUCTION: &str = "# HTTP

This page is generated from the code; `cargo xtask gen` rewrites it. [The guide](../http.md) explains how to use it.

The listener speaks HTTP/1.1 and HTTP/2: HTTP/2 by prior knowledge, or by ALPN with TLS. Request bodies are read as
JSON, whatever their `Content-Type`, and an unknown member is an error. An error before there is a decision is answered
with `application/problem+json`: `type`, `title`, `status`, `detail`, and `field` if one member is the cause.
";

const COMMON: &[(&str, &str)] = &[
    ("400", "the body is invalid; `field` names the member"),
    ("401", "the endpoint is guarded, and the token is missing or wrong"),
    (
        "403",
        "the endpoint is guarded, the listener is not on loopback, and the settings have no `auth.http_token`",
    ),
    (
        "403",
        "on loopback, every endpoint except `/v1/forward-auth`: the request has an `Origin`, or its `Host` is neither \
         `localhost` nor an IP address",
    ),
    ("404", "no endpoint has this path; `endpoints` lists those that exist"),
    ("405", "the method is not `POST`; see `Allow`"),
    ("408", "the body does not arrive in time"),
    ("413", "the body is too large"),
    ("431", "too many headers, or too large ones"),
    ("503", "unfinished request bodies use up the memory set aside for them"),
    ("503", "HTTP/2 only: responses that clients have not read use up the memory set aside for them"),
    ("503", "`/v1/throttle` only: too many different limits are in use at once"),
];

/// The page, as Markdown.
pub(crate) fn reference_page() -> String {
    let mut page = String::from(INTRODUCTION);
    for endpoint in ENDPOINTS {
        add(
            &mut page,
            format_args!("\n## `{} {}`\n\n{}\n", endpoint.method(), endpoint.path, endpoint.about),
        );
        page.push_str(match endpoint.access {
            EndpointAccess::Anybody => "",
            EndpointAccess::Programs => {
                "\nOn loopback it is not for web pages: without the settings' `auth.http_token`, a request with \
                 `Origin` is refused, and `Host` must be `localhost` or an IP address.\n"
            }
            EndpointAccess::Guarded => {
                "\nGuarded: on a listener that is not on loopback it needs `Authorization: Bearer` with the \
                 settings' `auth.http_token`. On loopback it is not for web pages: without the token, a request with \
                 `Origin` is refused, and `Host` must be `localhost` or an IP address.\n"
            }
        });
        if !endpoint.example.is_empty() {
            add(&mut page, format_args!("\n```json\n{}\n```\n", endpoint.example));
            add(&mut page, format_args!("\nThe body is at most {} bytes.\n", endpoint.body_max));
        }
        table(&mut page, endpoint.answers);
    }
    page.push_str("\n## Problems\n");
    table(&mut page, COMMON);
    limits(&mut page);
    page
}

fn table(page: &mut String, rows: &[(&str, &str)]) {
    page.push_str("\n| status | means |\n|---|---|\n");
    rows.iter().for_each(|(status, means)| add(page, format_args!("| {status} | {means} |\n")));
}

fn limits(page: &mut String) {
    page.push_str("\n## Limits\n\n| what | at most |\n|---|---|\n");
    for (what, most) in [
        ("headers of a request", HEADERS_MAX.to_string()),
        ("bytes of a head, HTTP/1.1", HEAD_BYTES_MAX.to_string()),
        ("bytes of a head, HTTP/2", HTTP2_HEAD_BYTES_MAX.to_string()),
        ("requests at once on an HTTP/2 connection", STREAMS_MAX.to_string()),
        ("seconds from the first byte of a head to its last", HEAD_TIMEOUT.as_secs().to_string()),
        ("seconds for a body", BODY_TIMEOUT.as_secs().to_string()),
        (
            "seconds for a client to read a response, or 16 KiB of it",
            CLIENT_READ_TIMEOUT.as_secs().to_string(),
        ),
        ("seconds without a request, up to a quarter more", IDLE_TIMEOUT.as_secs().to_string()),
    ] {
        add(page, format_args!("| {what} | {most} |\n"));
    }
    page.push_str("\nA request with `Transfer-Encoding` is the last on its connection.\n");
}

fn add(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("writing to a String does not fail");
}
