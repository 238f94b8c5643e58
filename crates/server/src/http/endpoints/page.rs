//! The reference page of the HTTP listener, written from the table that routes.

use std::fmt::Write;

use super::{Access, ENDPOINTS};
use crate::bounds::{
    BODY_TIMEOUT, HEAD_BYTES_MAX, HEAD_TIMEOUT, HEADERS_MAX, HTTP2_HEAD_BYTES_MAX, IDLE_TIMEOUT, STREAMS_MAX,
    TAKE_TIMEOUT,
};

const INTRODUCTION: &str = "# HTTP

This page is written from the code; `cargo xtask gen` rewrites it. [The guide](../http.md) tells how to use it.

HTTP/1.1 and HTTP/2, the latter by prior knowledge, or by ALPN with TLS. Bodies are JSON whatever `Content-Type`
says, and an unknown member is an error. What goes wrong before there is a decision is answered with
`application/problem+json`: `type`, `title`, `status`, `detail`, and `field` where one member is to blame.
";

const COMMON: &[(&str, &str)] = &[
    ("400", "the body is not what is asked for; `field` names the member"),
    ("401", "a guarded endpoint, and the token is missing or wrong"),
    (
        "403",
        "a guarded endpoint on a listener that is not on loopback, and the settings have no `auth.http_token`",
    ),
    (
        "403",
        "all but `/v1/forward-auth`, on loopback, asked with `Origin` or with another `Host` than localhost or an \
         address",
    ),
    ("404", "no such path; `endpoints` lists those there are"),
    ("405", "not asked by `POST`; `Allow` says so too"),
    ("408", "the body does not come in time"),
    ("413", "the body is too large"),
    ("431", "too many headers, or too large ones"),
    ("503", "bodies of other requests that are still to come take all the room there is for them"),
    ("503", "HTTP/2 only: answers that were not taken use up what there is for them"),
    ("503", "`/v1/throttle` only: too many different limits are in use at once"),
];

/// The page.
pub(crate) fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    for endpoint in ENDPOINTS {
        add(
            &mut page,
            format_args!("\n## `{} {}`\n\n{}\n", endpoint.asked_by(), endpoint.path, endpoint.about),
        );
        page.push_str(match endpoint.access {
            Access::Anybody => "",
            Access::Programs => {
                "\nOn loopback it is not for web pages: without the settings' `auth.http_token`, `Origin` is refused, \
                 and `Host` must be localhost or an address.\n"
            }
            Access::Guarded => {
                "\nGuarded: on a listener that is not on loopback it needs `Authorization: Bearer` with the \
                 settings' `auth.http_token`. On loopback it is not for web pages: without the token, `Origin` is \
                 refused, and `Host` must be localhost or an address.\n"
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
        ("seconds for a client to take an answer, or 16 KiB of it", TAKE_TIMEOUT.as_secs().to_string()),
        ("seconds of silence, give or take a quarter", IDLE_TIMEOUT.as_secs().to_string()),
    ] {
        add(page, format_args!("| {what} | {most} |\n"));
    }
    page.push_str("\nA request with `Transfer-Encoding` is the last on its connection.\n");
}

fn add(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a String takes all");
}
