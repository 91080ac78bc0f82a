//! Leases of device time: messages between a server and a process that reads its pool directly.
//!
//! The process sends a hello, which names its I/O origin, and then asks for one lease after
//! another. An ask returns the previous lease and reports how it was used. The server answers when
//! the process may read. Until then it repeats that the process waits.
//!
//! ```text
//! process: Hello, Ask ........... read, Ask ......... read ...
//! server:             Waits, Granted         Granted
//! ```
//!
//! Both ends of the program's control socket call this.
//! Invariant: no I/O. Messages have fixed sizes, are little-endian, and reserved bytes are 0.
//! Decoding any bytes yields a message within the limits or [`Malformed`]. The ends may be
//! different versions of the program: a changed layout gets a new [`MAGIC`].

use crate::flow::Flow;

/// First bytes of a hello.
pub const MAGIC: [u8; 8] = *b"QNTLSE\x01\n";
/// Maximum size of a lease, bytes.
pub const LEASE_BYTES_MAX: u32 = 4 << 20;

/// First message of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Origin of its reads: never a client of volumes.
    pub flow: Flow,
}

/// How leases were used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Used {
    /// Number of reads.
    pub reads: u32,
    /// Number of reads that did not begin where the previous one had ended.
    pub seeks: u32,
    /// Number of bytes read.
    pub bytes: u32,
}

/// Returns the previous lease and asks for the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Minimum number of bytes, up to [`LEASE_BYTES_MAX`]; 0: no lease.
    pub wanted: u32,
    /// Use since the previous ask.
    pub used: Used,
}

/// Message of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseAnswer {
    /// The process waits for its I/O grant.
    Waits,
    /// The process may read this many bytes now, at least 1.
    Granted(u32),
}

/// The bytes are no valid message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct Malformed {
    /// Why they are invalid.
    pub what: &'static str,
}

fn unless(wrong: bool, what: &'static str) -> Result<(), Malformed> {
    if wrong {
        return Err(Malformed { what });
    }
    Ok(())
}

impl Hello {
    /// Encoded size, [`MAGIC`] included.
    pub const BYTES: usize = 12;

    /// Encodes the message.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let [m0, m1, m2, m3, m4, m5, m6, m7] = MAGIC;
        [m0, m1, m2, m3, m4, m5, m6, m7, self.flow as u8, 0, 0, 0]
    }

    /// Decodes a message.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, Malformed> {
        let [magic @ .., number, r0, r1, r2] = bytes;
        unless(*magic != MAGIC, "a hello of another version")?;
        unless([*r0, *r1, *r2] != [0; 3], "a hello with reserved bytes")?;
        let flow = Flow::ALL.get(usize::from(*number)).copied();
        match flow {
            Some(flow) if flow > Flow::ForegroundSequential => Ok(Self { flow }),
            _ => Err(Malformed {
                what: "leases are not for such reads",
            }),
        }
    }
}

impl Ask {
    /// Encoded size.
    pub const BYTES: usize = 16;

    /// Encodes the message.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let Used {
            reads,
            seeks,
            bytes,
        } = self.used;
        let mut out = [0; Self::BYTES];
        let fields = [self.wanted, reads, seeks, bytes];
        for (place, field) in out.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        out
    }

    /// Decodes a message.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, Malformed> {
        let mut fields = [0; 4];
        for (field, place) in fields.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *field = u32::from_le_bytes(*place);
        }
        let [wanted, reads, seeks, bytes] = fields;
        unless(wanted > LEASE_BYTES_MAX, "a lease that is too long")?;
        unless(seeks > reads, "more seeks than reads")?;
        let used = Used {
            reads,
            seeks,
            bytes,
        };
        Ok(Self { wanted, used })
    }
}

impl LeaseAnswer {
    /// Encoded size.
    pub const BYTES: usize = 8;
    const KIND: u32 = u32::from_le_bytes(*b"LSE:");

    /// Encodes the message.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let bytes = match self {
            Self::Waits => 0,
            Self::Granted(bytes) => bytes,
        };
        let whole = u64::from(Self::KIND) | u64::from(bytes) << 32;
        whole.to_le_bytes()
    }

    /// Decodes a message.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, Malformed> {
        let whole = u64::from_le_bytes(*bytes);
        unless(whole as u32 != Self::KIND, "no answer to a process")?;
        match (whole >> 32) as u32 {
            0 => Ok(Self::Waits),
            bytes => Ok(Self::Granted(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few thousand byte strings that resemble valid ones.
    fn mutations<const N: usize>(of: [u8; N]) -> impl Iterator<Item = [u8; N]> {
        let singles = (0..N).flat_map(move |at| {
            (0..=255).map(move |byte| {
                let mut bytes = of;
                bytes[at] = byte;
                bytes
            })
        });
        singles.chain([[0; N], [0xff; N]])
    }

    #[test]
    fn what_is_said_is_heard() {
        for flow in Flow::ALL {
            let hello = Hello { flow };
            let may = !matches!(
                flow,
                Flow::ForegroundNonSequential | Flow::ForegroundSequential
            );
            assert_eq!(Hello::decode(&hello.encode()).ok(), may.then_some(hello));
        }
        let used = Used {
            reads: 7,
            seeks: 3,
            bytes: 1 << 20,
        };
        for wanted in [0, 1, LEASE_BYTES_MAX] {
            let ask = Ask { wanted, used };
            assert_eq!(Ask::decode(&ask.encode()), Ok(ask));
        }
        for answer in [
            LeaseAnswer::Waits,
            LeaseAnswer::Granted(1),
            LeaseAnswer::Granted(u32::MAX),
        ] {
            assert_eq!(LeaseAnswer::decode(&answer.encode()), Ok(answer));
        }
    }

    #[test]
    fn nothing_but_what_is_within_the_limits_means_anything() {
        let hello = Hello {
            flow: Flow::Restore,
        };
        let heard: Vec<Hello> = mutations(hello.encode())
            .filter_map(|bytes| Hello::decode(&bytes).ok())
            .collect();
        assert!(
            heard
                .iter()
                .all(|hello| hello.flow > Flow::ForegroundSequential)
        );
        // Each byte has one mutation to its own value, and five other flows are valid.
        assert_eq!(heard.len(), Hello::BYTES + 5);
        let ask = Ask {
            wanted: 5 << 18,
            used: Used {
                reads: 300,
                seeks: 200,
                bytes: 9,
            },
        };
        let (mut good, mut bad) = (0, 0);
        for bytes in mutations(ask.encode()) {
            match Ask::decode(&bytes) {
                Ok(ask) => {
                    good += 1;
                    assert!(ask.wanted <= LEASE_BYTES_MAX && ask.used.seeks <= ask.used.reads);
                    assert_eq!(ask.encode(), bytes);
                }
                Err(_) => bad += 1,
            }
        }
        assert!(good > 1000 && bad > 500, "{good} and {bad}");
        let answer = LeaseAnswer::Granted(77).encode();
        for bytes in mutations(answer).filter(|bytes| bytes[..4] != answer[..4]) {
            assert!(LeaseAnswer::decode(&bytes).is_err());
        }
    }
}
