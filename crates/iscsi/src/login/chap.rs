//! Implements the target's side of CHAP (RFC 1994, RFC 7143 12.1.3), in both directions. The login
//! calls this.
//!
//! Invariant: every login gets a new challenge. A wrong user and a wrong secret look the same, and
//! take the same time.

use crate::targets::Credentials;
use md5::{Digest, Md5};
use media::Random;

/// Length of our challenges, bytes.
const CHALLENGE_BYTES: usize = 32;

/// Hash functions, by their numbers in CHAP_A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Md5 = 5,
    Sha256 = 7,
}

impl Algorithm {
    /// Returns the first algorithm of a list of numbers that we know.
    pub(super) fn choose(list: &str) -> Option<Self> {
        list.split(',').find_map(|number| match number.trim() {
            "5" => Some(Self::Md5),
            "7" => Some(Self::Sha256),
            _ => None,
        })
    }

    /// Returns the answer to a challenge.
    pub(super) fn answer(self, identifier: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
        let parts: [&[u8]; 3] = [&[identifier], secret, challenge];
        match self {
            Self::Md5 => {
                let mut hash = Md5::new();
                parts.iter().for_each(|part| hash.update(part));
                hash.finalize().to_vec()
            }
            Self::Sha256 => {
                let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
                parts.iter().for_each(|part| hash.update(part));
                hash.finish().as_ref().to_vec()
            }
        }
    }
}

/// A challenge that waits for its answer.
pub(super) struct Challenge {
    pub(super) algorithm: Algorithm,
    pub(super) identifier: u8,
    pub(super) bytes: [u8; CHALLENGE_BYTES],
}

impl Challenge {
    pub(super) fn new(algorithm: Algorithm, random: &dyn Random) -> Self {
        let (mut identifier, mut bytes) = ([0], [0; CHALLENGE_BYTES]);
        random.fill(&mut identifier);
        random.fill(&mut bytes);
        Self {
            algorithm,
            identifier: identifier[0],
            bytes,
        }
    }

    /// Returns true if user and answer are right.
    pub(super) fn accepts(&self, wanted: &Credentials, user: &str, answer: &[u8]) -> bool {
        let right = self
            .algorithm
            .answer(self.identifier, &wanted.secret, &self.bytes);
        let is_right = equal(&right, answer);
        let is_user = equal(wanted.user.as_bytes(), user.as_bytes());
        is_right & is_user
    }
}

/// Compares in a time that does not depend on where the bytes differ.
fn equal(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_of_the_hash_functions() {
        let answer = |algorithm: Algorithm| {
            let bytes = algorithm.answer(b'm', b"essage dig", b"est");
            bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()
        };
        // RFC 1321, A.5: "message digest".
        let md5 = "f96b697d7cb7938d525a2f31aaf161d0";
        assert_eq!(answer(Algorithm::Md5), md5);
        let sha = "f7846f55cf23e14eebeab5b4e1550cad5b509e3348fbc4efa3a1413d393cb650";
        assert_eq!(answer(Algorithm::Sha256), sha);
        assert_eq!(Algorithm::choose("8,7,5"), Some(Algorithm::Sha256));
        assert_eq!(Algorithm::choose("6"), None);
    }
}
