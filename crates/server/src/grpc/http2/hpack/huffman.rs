//! The Huffman code of HPACK (RFC 7541, Appendix B).
//!
//! The code is canonical: among codes of one length, those of larger symbols follow those of smaller ones, and shorter
//! codes precede longer ones. So the lengths alone give all codes.

/// The symbol that ends a text; it must not occur in one.
const END: u16 = 256;
const LONGEST: usize = 30;
/// Codes of up to this many bits are found with one look into a table: those of all usual characters.
const QUICK: usize = 8;

/// How many bits the code of each symbol has.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, //
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, //
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, //
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, //
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

static CODE: HuffmanCode = HuffmanCode::new();

struct HuffmanCode {
    /// All symbols in the order of their codes.
    symbols: [u16; 257],
    /// For each length: the first code, how many there are, and the place of the first in `symbols`.
    first: [u32; LONGEST + 1],
    count: [u32; LONGEST + 1],
    place: [u32; LONGEST + 1],
    /// For the next [`QUICK`] bits: the symbol and its length; the length 0 if the code is longer.
    quick: [(u8, u8); 1 << QUICK],
}

impl HuffmanCode {
    const fn new() -> HuffmanCode {
        let mut code = HuffmanCode {
            symbols: [0; 257],
            first: [0; LONGEST + 1],
            count: [0; LONGEST + 1],
            place: [0; LONGEST + 1],
            quick: [(0, 0); 1 << QUICK],
        };
        let (mut next, mut placed, mut length) = (0_u32, 0_usize, 1_usize);
        while length <= LONGEST {
            next <<= 1;
            code.first[length] = next;
            code.place[length] = placed as u32;
            let mut symbol = 0;
            while symbol < LENGTHS.len() {
                if LENGTHS[symbol] as usize == length {
                    code.symbols[placed] = symbol as u16;
                    code.count[length] += 1;
                    if length <= QUICK {
                        let spare = QUICK - length;
                        let (from, mut offset) = ((next as usize) << spare, 0);
                        while offset < 1 << spare {
                            code.quick[from + offset] = (symbol as u8, length as u8);
                            offset += 1;
                        }
                    }
                    next += 1;
                    placed += 1;
                }
                symbol += 1;
            }
            length += 1;
        }
        code
    }

    /// The symbol whose code starts these bits, of which the highest comes first, and its length.
    fn longer(&self, bits: u64, available: usize) -> Option<(u16, usize)> {
        (QUICK + 1..=LONGEST.min(available)).find_map(|length| {
            let code = (bits >> (64 - length)) as u32;
            let offset =
                code.checked_sub(self.first[length]).filter(|offset| *offset < self.count[length])?;
            Some((self.symbols[(self.place[length] + offset) as usize], length))
        })
    }
}

/// Appends the decoded text; `None` if it is not valid.
pub(super) fn decode(encoded: &[u8], text: &mut Vec<u8>) -> Option<()> {
    // The bits that are read and not yet used, the next one as the highest.
    let (mut bits, mut available, mut rest) = (0_u64, 0_usize, encoded.iter());
    loop {
        while available <= 56
            && let Some(byte) = rest.next()
        {
            bits |= u64::from(*byte) << (56 - available);
            available += 8;
        }
        let (symbol, length) = CODE.quick[(bits >> (64 - QUICK)) as usize];
        if length != 0 && usize::from(length) <= available {
            text.push(symbol);
            (bits, available) = (bits << length, available - usize::from(length));
            continue;
        }
        match CODE.longer(bits, available) {
            Some((END, _)) => return None,
            Some((symbol, length)) => {
                text.push(symbol as u8);
                (bits, available) = (bits << length, available - length);
            }
            // Fewer than eight bits may be left, all ones: the start of the end symbol.
            None if available == 0 => return Some(()),
            None => return (available < 8 && bits.leading_ones() as usize >= available).then_some(()),
        }
    }
}

#[cfg(test)]
pub(super) fn encode(text: &[u8]) -> Vec<u8> {
    let code = |symbol: u16| {
        let length = usize::from(LENGTHS[usize::from(symbol)]);
        let place = CODE.symbols.iter().position(|other| *other == symbol).expect("it has all");
        (CODE.first[length] + place as u32 - CODE.place[length], length)
    };
    let mut bits = String::new();
    for byte in text {
        let (code, length) = code((*byte).into());
        bits.push_str(&format!("{code:0length$b}"));
    }
    while !bits.len().is_multiple_of(8) {
        bits.push('1');
    }
    let byte = |bits: &[u8]| {
        u8::from_str_radix(std::str::from_utf8(bits).expect("digits"), 2).expect("eight digits")
    };
    bits.as_bytes().chunks(8).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(encoded: &[u8]) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        decode(encoded, &mut text).map(|()| text)
    }

    #[test]
    fn the_codes_are_those_of_the_standard() {
        // Some of RFC 7541, Appendix B, and the texts of its Appendix C.
        assert_eq!(CODE.first[5], 0);
        assert_eq!(CODE.first[6], 0x14);
        assert_eq!(CODE.first[LONGEST], 0x3fff_fffc);
        assert_eq!(
            decoded(b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"),
            Some(b"www.example.com".into())
        );
        assert_eq!(decoded(b"\xa8\xeb\x10\x64\x9c\xbf"), Some(b"no-cache".into()));
        assert_eq!(decoded(b"\x64\x02"), Some(b"302".into()));
        assert_eq!(
            decoded(
                b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff"
            ),
            Some(b"Mon, 21 Oct 2013 20:13:21 GMT".into())
        );
    }

    #[test]
    fn padding_is_short_and_of_ones() {
        assert_eq!(decoded(b""), Some(Vec::new()));
        assert_eq!(decoded(b"\x07"), Some(b"0".into()), "`0` and three ones");
        assert_eq!(decoded(b"\x00"), None, "`0` and three zeros");
        assert_eq!(decoded(b"\x07\xff"), None, "eight ones more than needed");
        assert_eq!(decoded(b"\xff\xff\xff\xff"), None, "the end symbol");
        assert_eq!(decoded(b"\xff\xff\xff\xfc"), None, "and within a text");
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decoded(&encode(&text)), Some(text));
        }

        #[test]
        fn any_bytes_end(encoded in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut text = Vec::new();
            let _valid = decode(&encoded, &mut text);
            prop_assert!(text.len() <= encoded.len() * 8 / 5);
        }
    }
}
