//! The texts of versions, compressed.

use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use crate::DatabaseError;

/// The speed at which a policy of a megabyte takes a few milliseconds; more effort hardly makes it smaller.
const LEVEL: u8 = 6;

/// No policy is larger; a row that claims more is broken.
const LONGEST: usize = 256 * 1024 * 1024;

pub(crate) fn pack(text: &str) -> Vec<u8> {
    compress_to_vec_zlib(text.as_bytes(), LEVEL)
}

pub(crate) fn unpack(bytes: &[u8]) -> Result<String, DatabaseError> {
    let broken =
        || DatabaseError::Invalid("the stored text of a version is damaged: restore a backup".into());
    let bytes = decompress_to_vec_zlib_with_limit(bytes, LONGEST).map_err(|_| broken())?;
    String::from_utf8(bytes).map_err(|_| broken())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_come_back_as_they_were(text: String) {
            prop_assert_eq!(unpack(&pack(&text)).unwrap(), text);
        }
    }

    #[test]
    fn damage_is_an_error() {
        let mut packed = pack(&"limits: []\n".repeat(50));
        packed[10] ^= 0x55;
        assert!(unpack(&packed).is_err());
    }
}
