//! `/v1/forward-auth` over HTTP/1.1 with keep-alive: without a token, and with invalid tokens of several kinds.

use tidegate::testing::Random;

use super::{AnswerVerdict, CheckedAnswer, ClientProtocol, WireError};
use crate::server::limits::{FORWARDED_ADDRESS, FORWARDED_HOST, FORWARDED_URI};

/// Letters of base64url.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Letters of a signature of 2,048 bits.
const SIGNATURE_LETTERS: usize = 342;
/// The `kid` in invalid tokens.
pub(crate) const KEY_ID: &str = "a";

/// The token of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bearer {
    Nothing,
    /// It names an existing key and has valid claims; its signature is new every time, so that it must be
    /// checked.
    FreshJunk,
    /// The same token every time.
    SameJunk,
    /// It names none of the two keys.
    NamelessJunk,
}

/// A connection of a proxy that asks on behalf of its client.
#[derive(Debug)]
pub(crate) struct ForwardAuth {
    bearer: Bearer,
    /// The head of every request.
    head: String,
    /// The signed part of the token.
    message: String,
    random: Random,
    answered: u32,
}

impl ForwardAuth {
    pub(crate) fn new(bearer: Bearer) -> ForwardAuth {
        let header = match bearer {
            Bearer::NamelessJunk => r#"{"alg":"RS256","typ":"JWT"}"#.to_owned(),
            _ => format!(r#"{{"alg":"RS256","typ":"JWT","kid":"{KEY_ID}"}}"#),
        };
        let payload = r#"{"sub":"42","iss":"https://login.example.com/","aud":"api","iat":1700000000,"exp":3000000000}"#;
        let message = format!("{}.{}", encoded(header.as_bytes()), encoded(payload.as_bytes()));
        // Every connection sends other tokens.
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0_u8);
        let seed = if bearer == Bearer::SameJunk { 1 } else { seed };
        let head = format!(
            "GET /v1/forward-auth HTTP/1.1\r\nHost: tidegate\r\nX-Forwarded-Method: GET\r\n\
             X-Forwarded-Uri: {FORWARDED_URI}\r\nX-Forwarded-Host: {FORWARDED_HOST}\r\n\
             X-Forwarded-For: {FORWARDED_ADDRESS}\r\nUser-Agent: bench\r\nAccept: */*\r\n"
        );
        ForwardAuth { bearer, head, message, random: Random::new(seed), answered: 0 }
    }

    fn write_token(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Authorization: Bearer ");
        out.extend_from_slice(self.message.as_bytes());
        // Smaller than every modulus, or it would be rejected before the expensive exponentiation.
        out.extend_from_slice(b".A");
        let mut random =
            if self.bearer == Bearer::SameJunk { Random::new(1) } else { Random::new(self.random.bits()) };
        let mut bits = 0;
        for place in 1..SIGNATURE_LETTERS {
            if place % 10 == 1 {
                bits = random.bits();
            }
            // The last letter has bits beyond the last byte, which must be zero.
            let letter = if place + 1 == SIGNATURE_LETTERS { 0 } else { bits % 64 };
            out.push(LETTERS[letter as usize]);
            bits /= 64;
        }
        out.extend_from_slice(b"\r\n");
    }
}

impl ClientProtocol for ForwardAuth {
    fn write_request(&mut self, _key: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head.as_bytes());
        if self.bearer != Bearer::Nothing {
            self.write_token(out);
        }
        out.extend_from_slice(b"\r\n");
    }

    fn receive(
        &mut self,
        received: &[u8],
        _out: &mut Vec<u8>,
        answers: &mut Vec<CheckedAnswer>,
    ) -> Result<usize, WireError> {
        let mut taken = 0;
        while let Some((length, verdict)) = answer(&received[taken..])? {
            let expected =
                if self.bearer == Bearer::Nothing { AnswerVerdict::Allowed } else { AnswerVerdict::Denied };
            if verdict != expected {
                return Err(WireError::unexpected(&received[taken..]));
            }
            answers.push(CheckedAnswer { request: self.answered, verdict });
            self.answered = self.answered.wrapping_add(1);
            taken += length;
        }
        Ok(taken)
    }
}

/// The length of the response and its verdict; `None` while it is incomplete.
fn answer(received: &[u8]) -> Result<Option<(usize, AnswerVerdict)>, WireError> {
    let Some(head) = received.windows(4).position(|end| end == b"\r\n\r\n").map(|place| place + 4) else {
        return Ok(None);
    };
    match received.get(9..12) {
        Some(b"204") => Ok(Some((head, AnswerVerdict::Allowed))),
        Some(b"401") => {
            let text = String::from_utf8_lossy(&received[..head]).to_ascii_lowercase();
            let length =
                text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            let length: usize = length.ok_or_else(|| WireError::unexpected(received))?;
            Ok((received.len() >= head + length).then_some((head + length, AnswerVerdict::Denied)))
        }
        _ => Err(WireError::unexpected(received)),
    }
}

/// base64url without padding.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut number = [0, 0, 0, 0];
        number[1..=chunk.len()].copy_from_slice(chunk);
        let number = u32::from_be_bytes(number);
        for place in 0..=chunk.len() {
            text.push(char::from(LETTERS[(number >> (18 - 6 * place)) as usize % 64]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: &mut ForwardAuth) -> String {
        let mut out = Vec::new();
        protocol.write_request(0, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn junk_is_new_every_time_or_never() {
        let token = |protocol: &mut ForwardAuth| {
            let text = written(protocol);
            let line = text.lines().find_map(|line| line.strip_prefix("Authorization: Bearer ")).unwrap();
            let signature = line.rsplit('.').next().unwrap().to_owned();
            assert_eq!((line.split('.').count(), signature.len()), (3, SIGNATURE_LETTERS), "{line}");
            signature
        };
        let mut fresh = ForwardAuth::new(Bearer::FreshJunk);
        assert_ne!(token(&mut fresh), token(&mut fresh));
        let mut same = ForwardAuth::new(Bearer::SameJunk);
        assert_eq!(token(&mut same), token(&mut ForwardAuth::new(Bearer::SameJunk)));
        assert!(!written(&mut ForwardAuth::new(Bearer::Nothing)).contains("Authorization"));
    }

    #[test]
    fn answers_are_read_with_and_without_a_body() {
        let yes = b"HTTP/1.1 204 No Content\r\nx: y\r\n\r\n".as_slice();
        let no = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}".as_slice();
        assert_eq!(answer(&[yes, no].concat()), Ok(Some((yes.len(), AnswerVerdict::Allowed))));
        assert_eq!(answer(&[no, yes].concat()), Ok(Some((no.len(), AnswerVerdict::Denied))));
        assert_eq!((answer(&no[..no.len() - 1]), answer(&yes[..9])), (Ok(None), Ok(None)));
        assert!(answer(b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n").is_err());
    }

    #[test]
    fn the_text_is_base64url() {
        for (bytes, text) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("??>", "Pz8-")]
        {
            assert_eq!(encoded(bytes.as_bytes()), text);
        }
    }
}
