//! TLS, and certificates that change while the server runs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::support::home::Home;
use crate::support::server::{Server, listening_only, run, tidegate};

/// A new certificate and its key, in PEM.
fn pair() -> (String, String) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("it can be made");
    (made.cert.pem(), made.signing_key.serialize_pem())
}

/// The ALPN protocol of a handshake by a client that trusts only this certificate; an error if the server has another.
fn handshake(address: &str, trusted: &str) -> Result<Option<Vec<u8>>, std::io::Error> {
    let mut client = connection(trusted);
    let mut stream = TcpStream::connect(address)?;
    while client.is_handshaking() {
        client.complete_io(&mut stream)?;
    }
    Ok(client.alpn_protocol().map(<[u8]>::to_vec))
}

/// A client that trusts only this certificate.
fn connection(trusted: &str) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).expect("it is one")).expect("it is sound");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").expect("it is a name");
    ClientConnection::new(Arc::new(config), name).expect("it can begin")
}

fn secure(home: &Home) -> Server {
    let (cert, key) = pair();
    home.write("cert.pem", &cert);
    home.write("key.pem", &key);
    let settings = home.write("settings.yaml", "tls: { cert: cert.pem, key: key.pem }\n");
    Server::start(&["--config", &settings])
}

#[test]
fn both_listeners_have_it_and_reload_it() {
    let home = Home::new();
    let server = secure(&home);
    let first = std::fs::read_to_string(home.path("cert.pem")).expect("it is there");
    assert!(server.told("http").starts_with("https://"), "{}", server.banner);
    for listener in ["http", "grpc"] {
        let agreed = handshake(&server.address(listener), &first).expect("it is trusted");
        assert_eq!(agreed.as_deref(), Some(&b"h2"[..]), "{listener}");
    }

    // The new certificate does not match the old key: the previous pair stays in force.
    let (cert, key) = pair();
    home.replace("cert.pem", &cert);
    server.logged(&["not reloaded; the previous version stays in force", "tls"]);
    handshake(&server.address("http"), &first).expect("the first is still used");

    home.replace("key.pem", &key);
    server.logged(&["reloaded", "tls"]);
    handshake(&server.address("http"), &cert).expect("the second is used");
    handshake(&server.address("http"), &first).expect_err("the first is not");
}

#[test]
fn without_a_sound_pair_it_does_not_start() {
    let home = Home::new();
    let (cert, _) = pair();
    home.write("cert.pem", &cert);
    home.write("key.pem", &pair().1);
    let settings = home.write("settings.yaml", "tls: { cert: cert.pem, key: key.pem }\n");
    let ran = run(tidegate(&["serve", "--config", &settings]));
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{}", ran.err);
    assert!(ran.err.contains("tls: ") && ran.err.contains("cert.pem with "), "{}", ran.err);
}

#[test]
fn who_does_not_speak_tls_is_closed() {
    let home = Home::new();
    let server = secure(&home);
    let mut stream = TcpStream::connect(server.address("http")).expect("somebody listens");
    stream.write_all(b"GET /v1/check HTTP/1.1\r\n\r\n").expect("it can be sent");
    let mut answer = Vec::new();
    // The server may send an alert, or just close.
    _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
}

#[test]
fn the_admin_listener_has_it_and_then_serves_the_admin_api_to_other_machines() {
    let home = Home::new();
    let (cert, key) = pair();
    home.write("cert.pem", &cert);
    home.write("key.pem", &key);
    let settings = home.write("settings.yaml", "tls: { cert: cert.pem, key: key.pem }\n");
    let mut command = listening_only("admin", "0.0.0.0:0");
    command.args(["--config", &settings]);
    let server = Server::start_with(command);
    assert!(server.told("admin").starts_with("https://"), "{}", server.banner);
    let address = format!("127.0.0.1:{}", server.socket("admin").port());
    assert_eq!(handshake(&address, &cert).expect("it is trusted").as_deref(), Some(&b"http/1.1"[..]));
    for (path, status) in [("/healthz", "200"), ("/api/v1/whoami", "401"), ("/console/login", "405")] {
        let answer = asked(&address, &cert, path);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
}

/// The answer to a GET over TLS.
fn asked(address: &str, trusted: &str, path: &str) -> String {
    let mut client = connection(trusted);
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    let mut tls = rustls::Stream::new(&mut client, &mut stream);
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    tls.write_all(request.as_bytes()).expect("it can be sent");
    let mut answer = Vec::new();
    // The server may close without a farewell.
    _ = tls.read_to_end(&mut answer);
    String::from_utf8(answer).expect("it is text")
}
