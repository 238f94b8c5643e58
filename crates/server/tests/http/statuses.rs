//! Statuses of requests that are not decided.

use serde_json::json;

use super::Server;

#[test]
fn what_is_wrong_is_named() {
    let server = Server::start();
    let mut client = server.connect();
    let throttle = |members: &str| format!("{{\"key\":\"k\",{members}}}");
    for (path, body, field) in [
        ("/v1/check", r#"{"usr":"a"}"#.to_owned(), "usr"),
        ("/v1/check", r#"{"user":7.5}"#.to_owned(), "user"),
        ("/v1/check", r#"{"cost":-1}"#.to_owned(), "cost"),
        ("/v1/check", r#"{"cost":1e400}"#.to_owned(), "cost"),
        ("/v1/check", r#"{"cost":0.5}"#.to_owned(), "cost"),
        ("/v1/check", r#"{"cost":18446744073709551616}"#.to_owned(), "cost"),
        ("/v1/check", r#"{"cost":NaN}"#.to_owned(), "cost"),
        ("/v1/peek", r#"{"ip":"nowhere"}"#.to_owned(), "ip"),
        ("/v1/check", r#"{"headers":{"a":{}}}"#.to_owned(), "headers.a"),
        ("/v1/check/batch", r#"{"requests":[{},{"trust":2}]}"#.to_owned(), "requests[1].trust"),
        ("/v1/refund", r#"{"request":{"cost":-1},"cost":1}"#.to_owned(), "request.cost"),
        ("/v1/throttle", throttle(r#""capacity":0,"rate":1,"window":"1s""#), "capacity"),
        ("/v1/throttle", throttle(r#""capacity":1,"rate":0,"window":"1s""#), "rate"),
        ("/v1/throttle", throttle(r#""capacity":1,"rate":1,"window":"0s""#), "window"),
        ("/v1/throttle", throttle(r#""capacity":1,"rate":1,"window":"soon""#), "window"),
        ("/v1/throttle", throttle(r#""capacity":1,"rate":2000000000,"window":"1s""#), "rate"),
        ("/v1/throttle", throttle(r#""capacity":1,"rate":1,"window":"367d""#), "window"),
    ] {
        let answer = client.post(path, &body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let problem = answer.json();
        assert_eq!(problem["field"], field, "{body}: {problem}");
        assert_eq!((&problem["status"], &problem["type"]), (&json!(400), &json!("about:blank")));
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
    }
    for body in [&b""[..], b"{", b"[]", b"{} {}", b"\xff\xfe", b"null"] {
        assert_eq!(client.post("/v1/check", body).status, 400, "{body:?}");
    }
    assert_eq!(client.post("/v1/check", "{}").status, 200, "and the connection goes on");
}

#[test]
fn other_paths_and_methods() {
    let server = Server::start();
    let mut client = server.connect();
    let missing = client.ask("GET", "/v2/check");
    assert_eq!(missing.status, 404);
    let endpoints = missing.json()["endpoints"].to_string();
    assert!(
        endpoints.contains("POST /v1/check\"") && endpoints.contains("ANY /v1/forward-auth"),
        "{endpoints}"
    );
    for method in ["GET", "PUT", "DELETE"] {
        let answer = client.ask(method, "/v1/check");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST, OPTIONS")), "{method}");
    }
    let head = client.ask("HEAD", "/v1/check");
    assert_eq!((head.status, &*head.body), (405, ""));
    let options = client.ask("OPTIONS", "/v1/throttle");
    assert_eq!((options.status, options.header("allow")), (204, Some("POST, OPTIONS")));
    assert_eq!(client.post("/v1/check?x=1", "{}").status, 200, "a query does not change the endpoint");
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let server = Server::start();
    for (path, bytes) in
        [("/v1/check", 64 * 1_024), ("/v1/throttle", 64 * 1_024), ("/v1/check/batch", 1_024 * 1_024)]
    {
        let mut client = server.connect();
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            bytes + 1
        ));
        let answer = client.answer();
        assert_eq!(answer.status, 413, "{path}: too long by its Content-Length");
        assert!(answer.json()["detail"].as_str().is_some_and(|said| said.contains(&bytes.to_string())));
        let mut client = server.connect();
        let blank = client.post(path, " ".repeat(bytes));
        assert_eq!(blank.status, 400, "{path}: this much is read");
        let mut client = server.connect();
        client.send(format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"));
        for _ in 0..=bytes / 1_024 {
            client.try_send(format!("400\r\n{}\r\n", " ".repeat(1_024)));
        }
        assert_eq!(client.answer().status, 413, "{path}: too long by its chunks");
    }
}

#[test]
fn every_answer_has_one_date() {
    let server = Server::start();
    let long = format!("POST /v1/check HTTP/1.1\r\nHost: localhost\r\nx: {}\r\n\r\n", "y".repeat(40_000));
    let lanes = ["", "TE: trailers\r\n", "Origin: http://other.example\r\n"].map(|more| {
        format!("POST /v1/check HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: 2\r\n\r\n{{}}")
    });
    let others = [
        "GET /v1/forward-auth HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "no request\r\n\r\n",
        &long,
    ];
    for text in lanes.iter().map(String::as_str).chain(others) {
        let mut client = server.connect();
        client.try_send(text);
        let answer = client.answer();
        assert!(answer.header("date").is_some_and(|date| date.ends_with(" GMT")), "{answer:?}");
    }
}
