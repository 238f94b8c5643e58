//! Random bytes.

use ring::rand::{SecureRandom, SystemRandom};

/// Sixteen bytes that nobody can guess.
pub(crate) fn salt() -> [u8; 16] {
    let mut salt = [0; 16];
    SystemRandom::new().fill(&mut salt).expect("the operating system has random numbers");
    salt
}
