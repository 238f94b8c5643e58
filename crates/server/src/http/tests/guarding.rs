//! Endpoints that need a token, or that web pages must not call.

use super::*;

const FREE: &str = "version: 1\nlimits: []\n";
const THROTTLE: &str = r#"{"key":"k","capacity":1,"rate":1,"window":"second"}"#;
const REMOTE: Peer = Peer {
    address: IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9)),
    on_loopback: false,
    alpn_http2: None,
};

async fn asked(settings: Settings, peer: Peer, path: &str, headers: &str) -> (String, String) {
    let mut client = Client::connect(&node(FREE, settings), peer);
    let body = match path {
        "/v1/refund" => r#"{"request":{},"cost":1}"#,
        "/v1/throttle" => THROTTLE,
        "/v1/check/batch" => r#"{"requests":[{}]}"#,
        _ => "{}",
    };
    client.post(path, headers, body).await;
    client.answer().await
}

#[tokio::test(start_paused = true)]
async fn without_a_token_in_the_settings_they_are_off() {
    for path in ["/v1/throttle", "/v1/refund"] {
        let (head, body) = asked(Settings::default(), REMOTE, path, "Authorization: Bearer x\r\n").await;
        assert!(head.starts_with("HTTP/1.1 403"), "{head}");
        assert!(body.contains("this endpoint is off"), "{body}");
        let (head, _) = asked(Settings::default(), LOCAL, path, "").await;
        assert!(head.starts_with("HTTP/1.1 200"), "loopback needs none: {head}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_token_opens_them() {
    for (headers, status) in [
        ("", "401"),
        ("Authorization: Bearer s3cre\r\n", "401"),
        ("Authorization: Bearer s3cret2\r\n", "401"),
        ("Authorization: Basic s3cret\r\n", "401"),
        ("Authorization: Bearer s3cret\r\n", "200"),
        ("authorization: bearer s3cret\r\n", "200"),
    ] {
        let settings = Settings { http_token: Some("s3cret".into()), ..Settings::default() };
        let (head, body) = asked(settings, REMOTE, "/v1/throttle", headers).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{headers}: {head}");
        assert_eq!(head.contains("www-authenticate: Bearer realm=\"tidegate\""), status == "401");
        assert!(!body.contains("s3cret"));
    }
}

#[tokio::test(start_paused = true)]
async fn everybody_may_ask_for_decisions() {
    let mut client = Client::connect(&node(FREE, Settings::default()), REMOTE);
    for path in ["/v1/check", "/v1/peek"] {
        client.post(path, "", "{}").await;
        assert!(client.answer().await.0.starts_with("HTTP/1.1 200"), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_in_a_browser_neither_takes_nor_hands_back() {
    let settings = || Settings { http_token: Some("s3cret".into()), ..Settings::default() };
    let page = "Origin: https://evil.example\r\nContent-Type: text/plain\r\n";
    for path in ["/v1/throttle", "/v1/refund", "/v1/check", "/v1/check/batch", "/v1/peek"] {
        for (headers, status) in [
            ("Host: 127.0.0.1:8080\r\n".to_owned(), 200),
            ("Host: 10.1.2.3:8080\r\n".to_owned(), 200),
            ("Host: localhost.evil.example\r\n".to_owned(), 403),
            (page.to_owned(), 403),
            ("Origin: null\r\n".to_owned(), 403),
            ("Host: evil.example\r\n".to_owned(), 403),
            (format!("{page}Authorization: Bearer guess\r\n"), 403),
            (format!("{page}Authorization: Bearer s3cret\r\n"), 200),
            (String::new(), 200),
        ] {
            let (head, body) = asked(settings(), LOCAL, path, &headers).await;
            assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{headers}: {head}");
            assert_eq!(body.contains("not for web pages"), status == 403, "{body}");
        }
    }
    for (path, peer, headers) in [
        // Proxies pass on what their clients send.
        ("/v1/forward-auth", LOCAL, page),
        ("/v1/forward-auth", LOCAL, "Host: api.example\r\n"),
        // Other machines connect by host names.
        ("/v1/check", REMOTE, page),
        ("/v1/check", REMOTE, "Host: tidegate.internal\r\n"),
        ("/v1/check/batch", REMOTE, "Host: tidegate.internal\r\n"),
        ("/v1/peek", REMOTE, "Host: tidegate.internal\r\n"),
    ] {
        let (head, _) = asked(settings(), peer, path, headers).await;
        assert!(head.starts_with("HTTP/1.1 20"), "{path} {headers}: {head}");
    }
}
