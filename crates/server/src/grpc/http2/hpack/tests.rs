//! The examples of RFC 7541, Appendix C, and hostile blocks.

use proptest::prelude::*;

use super::decoder::{BadBlock, HeaderDecoder};
use super::dynamic_table::TABLE_MAX;
use super::{encoder, huffman};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |two: &[char]| u8::from_str_radix(&two.iter().collect::<String>(), 16).expect("hexadecimal");
    digits.chunks(2).map(byte).collect()
}

fn decode(decoder: &mut HeaderDecoder, block: &[u8]) -> Result<Vec<String>, BadBlock> {
    let mut fields = Vec::new();
    decoder.decode(block, |name, value| {
        fields.push(format!("{}: {}", name.escape_ascii(), value.escape_ascii()));
    })?;
    Ok(fields)
}

/// Decodes blocks one after the other; each has fields and the size of the table after it.
fn check(blocks: [(&str, &[&str], usize); 3]) {
    let mut decoder = HeaderDecoder::new();
    for (block, fields, size) in blocks {
        assert_eq!(decode(&mut decoder, &bytes(block)).expect("it is valid"), fields);
        assert_eq!(decoder.table_size(), size);
    }
}

const FIRST: &[&str] = &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
const SECOND: &[&str] =
    &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"];
const THIRD: &[&str] = &[
    ":method: GET",
    ":scheme: https",
    ":path: /index.html",
    ":authority: www.example.com",
    "custom-key: custom-value",
];

#[test]
fn requests_without_huffman() {
    check([
        ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", FIRST, 57),
        ("8286 84be 5808 6e6f 2d63 6163 6865", SECOND, 110),
        ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", THIRD, 164),
    ]);
}

#[test]
fn requests_with_huffman() {
    check([
        ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", FIRST, 57),
        ("8286 84be 5886 a8eb 1064 9cbf", SECOND, 110),
        ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", THIRD, 164),
    ]);
}

#[test]
fn literals_of_each_kind() {
    for (block, field, size) in [
        ("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", "custom-key: custom-header", 55),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path", 0),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret", 0),
        ("82", ":method: GET", 0),
    ] {
        let mut decoder = HeaderDecoder::new();
        assert_eq!(decode(&mut decoder, &bytes(block)).expect("it is valid"), [field]);
        assert_eq!(decoder.table_size(), size);
    }
}

/// The table drops its oldest fields: the example of responses, whose table has 256 bytes.
#[test]
fn the_table_is_bounded() {
    let mut decoder = HeaderDecoder::new();
    assert_eq!(decode(&mut decoder, &bytes("3fe101")), Ok(Vec::new()), "256 bytes");
    let first = "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
                 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
    let location = "location: https://www.example.com";
    let date = "date: Mon, 21 Oct 2013 20:13:21 GMT";
    let wanted = [":status: 302", "cache-control: private", date, location];
    assert_eq!(decode(&mut decoder, &bytes(first)).expect("it is valid"), wanted);
    assert_eq!(decoder.table_size(), 222);
    let wanted = [":status: 307", "cache-control: private", date, location];
    assert_eq!(decode(&mut decoder, &bytes("4883 640e ffc1 c0bf")).expect("it is valid"), wanted);
    assert_eq!(decoder.table_size(), 222);
    let third = "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d \
                 d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 \
                 3d50 07";
    let wanted = [
        ":status: 200",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:22 GMT",
        location,
        "content-encoding: gzip",
        "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    ];
    assert_eq!(decode(&mut decoder, &bytes(third)).expect("it is valid"), wanted);
    assert_eq!(decoder.table_size(), 215);
}

#[test]
fn blocks_that_are_not_valid_are_refused() {
    for block in [
        "80",             // index 0
        "be",             // nothing in the table
        "ff 80808080 01", // an index far too large
        "ff",             // an incomplete one
        "40",             // a literal without a name
        "4001 61",        // without a value
        "4001 6105 61",   // with an incomplete one
        "00 8100 00",     // wrong padding of a Huffman code
        "82 20",          // a size after a field
        "3f e2 1f",       // a table of more than 4096 bytes
    ] {
        assert_eq!(decode(&mut HeaderDecoder::new(), &bytes(block)), Err(BadBlock::Invalid), "{block}");
    }
    assert_eq!(
        decode(&mut HeaderDecoder::new(), &bytes("20 3fe11f")),
        Ok(Vec::new()),
        "4096 bytes are allowed"
    );
}

#[test]
fn a_field_larger_than_the_table_empties_it() {
    let mut decoder = HeaderDecoder::new();
    decode(&mut decoder, &bytes("4001610162")).expect("it is valid");
    assert_eq!(decoder.table_size(), 34);
    // A value of 4096 bytes: 127 + (0x01 + 0x1f * 128).
    let mut large = bytes("400161 7f811f");
    large.extend_from_slice(&[b'x'; TABLE_MAX]);
    assert_eq!(decode(&mut decoder, &large).expect("it is valid").len(), 1);
    assert_eq!(decoder.table_size(), 0);
}

fn literal(added: bool, with_huffman: bool, name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut block = vec![if added { 0x40 } else { 0 }];
    for text in [name, value] {
        let (mark, text) = if with_huffman { (0x80, huffman::encode(text)) } else { (0, text.to_vec()) };
        // Texts in these tests are short.
        block.push(mark | u8::try_from(text.len()).expect("short"));
        block.extend_from_slice(&text);
    }
    block
}

proptest! {
    #[test]
    fn literals_come_back(
        fields in prop::collection::vec(
            (any::<bool>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..30), prop::collection::vec(any::<u8>(), 0..30)),
            0..200,
        ),
    ) {
        let mut decoder = HeaderDecoder::new();
        for (added, with_huffman, name, value) in fields {
            let decoded = decode(&mut decoder, &literal(added, with_huffman, &name, &value));
            let wanted = format!("{}: {}", name.escape_ascii(), value.escape_ascii());
            prop_assert_eq!(decoded, Ok(vec![wanted.clone()]));
            prop_assert!(decoder.table_size() <= TABLE_MAX);
            if added {
                prop_assert_eq!(decode(&mut decoder, &[0xbe]), Ok(vec![wanted]), "the newest");
            }
        }
    }

    #[test]
    fn any_bytes_end_and_the_table_stays_small(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8)) {
        let mut decoder = HeaderDecoder::new();
        for block in blocks {
            let _decoded = decode(&mut decoder, &block);
            prop_assert!(decoder.table_size() <= TABLE_MAX);
        }
    }

    #[test]
    fn what_the_server_writes_can_be_read(name in "[a-z-]{1,40}", value in "[ -~]{0,1000}") {
        let mut block = encoder::GRPC_HEAD.to_vec();
        encoder::put_field(&mut block, &name, &value);
        block.extend_from_slice(encoder::STATUS_OK);
        let wanted = [
            ":status: 200".to_owned(),
            "content-type: application/grpc".to_owned(),
            format!("{name}: {}", value.as_bytes().escape_ascii()),
            "grpc-status: 0".to_owned(),
        ];
        prop_assert_eq!(decode(&mut HeaderDecoder::new(), &block), Ok(wanted.to_vec()));
    }
}

#[test]
fn long_texts_are_not_kept() {
    // "a" has the five bits 00011, so five bytes are eight of them.
    let long = [0x18, 0xc6, 0x31, 0x8c, 0x63].repeat(2_000);
    let mut block = vec![0, 1, b'a', 0xff];
    let rest = long.len() - 0x7f;
    block.extend_from_slice(&[(rest & 0x7f) as u8 | 0x80, (rest >> 7) as u8]);
    block.extend_from_slice(&long);
    let mut decoder = HeaderDecoder::new();
    assert_eq!(decode(&mut decoder, &block), Ok(vec![format!("a: {}", "a".repeat(16_000))]));
    assert!(decoder.kept_bytes() <= 1_024, "{}", decoder.kept_bytes());
}
