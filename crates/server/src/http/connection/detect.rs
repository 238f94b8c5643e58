//! Detects HTTP/1.1 or HTTP/2 by the first bytes of a connection without TLS.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::bounds::HEAD_TIMEOUT;
use crate::node::lifecycle::Lifecycle;

/// The HTTP/2 connection preface. No HTTP/1.1 request begins with it.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Size of the first read. Most first requests are shorter.
const FIRST_READ: usize = 1_024;

/// Whether the connection speaks HTTP/2, and the bytes read to find out. `None` if the client sends nothing in time,
/// or the server is shutting down.
pub(crate) async fn first_bytes<I>(io: &mut I, lifecycle: &Lifecycle) -> Option<(bool, Bytes)>
where
    I: AsyncRead + Unpin,
{
    tokio::select! {
        biased;
        detected = tokio::time::timeout(HEAD_TIMEOUT, detect(io)) => detected.ok()?,
        () = lifecycle.closing() => None,
    }
}

async fn detect<I: AsyncRead + Unpin>(io: &mut I) -> Option<(bool, Bytes)> {
    let mut seen = BytesMut::with_capacity(FIRST_READ);
    loop {
        if io.read_buf(&mut seen).await.ok()? == 0 {
            return None;
        }
        let compared = seen.len().min(PREFACE.len());
        let is_http2 = seen[..compared] == PREFACE[..compared];
        if !is_http2 || compared == PREFACE.len() {
            return Some((is_http2, seen.freeze()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    async fn detected(parts: &[&[u8]]) -> Option<(bool, Bytes)> {
        let (mut client, mut server) = tokio::io::duplex(4_096);
        let lifecycle = Lifecycle::default();
        let write = async {
            for part in parts {
                client.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
            client
        };
        let (detected, _client) = tokio::join!(first_bytes(&mut server, &lifecycle), write);
        detected
    }

    #[tokio::test(start_paused = true)]
    async fn the_preface_tells() {
        assert_eq!(detected(&[PREFACE]).await, Some((true, Bytes::from_static(PREFACE))));
        assert!(detected(&[&PREFACE[..3], &PREFACE[3..]]).await.unwrap().0, "in pieces too");
        let post = Bytes::from_static(b"POST / HTTP/1.1\r\n");
        assert_eq!(detected(&[&post]).await, Some((false, post)), "nothing is lost");
        assert!(!detected(&[b"PRI * HTTP/1.1\r\n"]).await.unwrap().0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_not_waited_for() {
        assert_eq!(detected(&[]).await, None);
        assert_eq!(detected(&[&PREFACE[..10]]).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_at_the_end() {
        let (_client, mut server) = tokio::io::duplex(64);
        let lifecycle = Lifecycle::default();
        lifecycle.enter(crate::node::lifecycle::Phase::Draining);
        lifecycle.close();
        let waited = tokio::time::timeout(HEAD_TIMEOUT / 2, first_bytes(&mut server, &lifecycle)).await;
        assert_eq!(waited.expect("at once"), None);
    }
}
