//! Reads and writes little-endian values without panics. Every decoder in this crate uses it.
//!
//! Invariant: a [`Reader`] never indexes past its bytes and never allocates more than they justify.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Reason why bytes are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes are shorter than the layout.
    #[error("it is truncated")]
    Truncated,
    /// The object is of another kind.
    #[error("it is not an object of this kind")]
    BadMagic,
    /// The checksum does not match the bytes.
    #[error("its checksum differs: expected {expected:016x}, found {found:016x}")]
    BadChecksum {
        /// Checksum that the object contains.
        expected: u64,
        /// Checksum of its bytes.
        found: u64,
    },
    /// This program does not know the version.
    #[error("this program does not know version {0}; use a newer version of quintet")]
    Version(u16),
    /// This program does not know an incompatible feature.
    #[error("this program does not know features {0:#x}; use a newer version of quintet")]
    Features(u64),
    /// The object belongs to another place (pool, number or slot).
    #[error("it belongs to another place")]
    Misplaced,
    /// A field has a value that no writer writes.
    #[error("invalid {0}")]
    Invalid(&'static str),
}

/// A decoding error: the object, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {fault}")]
pub struct FormatError {
    /// The object or part ("container header").
    pub what: &'static str,
    /// The reason.
    pub fault: Fault,
}

impl FormatError {
    /// Makes an error.
    pub fn new(what: &'static str, fault: Fault) -> Self {
        Self { what, fault }
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, FormatError>;

/// Returns XXH3-64 with the object's type (and place) as seed. Bytes of another type therefore
/// never match.
pub fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// Fails unless `bytes` have the checksum `expected`.
pub fn verify(what: &'static str, seed: u64, bytes: &[u8], expected: u64) -> Result<()> {
    let found = checksum(seed, bytes);
    if found == expected {
        Ok(())
    } else {
        Err(FormatError::new(
            what,
            Fault::BadChecksum { expected, found },
        ))
    }
}

/// Takes values from the front of a byte slice.
#[derive(Clone)]
pub struct Reader<'a> {
    what: &'static str,
    rest: &'a [u8],
}

macro_rules! take_number {
    ($name:ident, $type:ty) => {
        #[doc = concat!("A little-endian `", stringify!($type), "`.")]
        pub fn $name(&mut self) -> Result<$type> {
            self.array().map(<$type>::from_le_bytes)
        }
    };
}

impl<'a> Reader<'a> {
    /// Reads `bytes` as a `what`.
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, rest: bytes }
    }

    /// Makes an error about the object being read.
    pub fn error(&self, fault: Fault) -> FormatError {
        FormatError::new(self.what, fault)
    }

    /// Makes an error about a field with an impossible value.
    pub fn invalid<T>(&self, field: &'static str) -> Result<T> {
        Err(self.error(Fault::Invalid(field)))
    }

    /// Takes the next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(len) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.error(Fault::Truncated)),
        }
    }

    /// Takes the next `N` bytes, copied.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let error = self.error(Fault::Truncated);
        self.take(N)?.try_into().map_err(|_| error)
    }

    take_number!(u8, u8);
    take_number!(u16, u16);
    take_number!(u32, u32);
    take_number!(u64, u64);
    take_number!(i64, i64);

    /// Takes a LEB128 number of at most ten bytes.
    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return self.invalid("varint");
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        self.invalid("varint")
    }

    /// Takes a varint that must fit in 32 bits.
    pub fn varint32(&mut self) -> Result<u32> {
        let value = self.varint()?;
        u32::try_from(value).or_else(|_| self.invalid("varint"))
    }

    /// Takes bytes with a varint length before them.
    pub fn sized(&mut self) -> Result<&'a [u8]> {
        let len = self.varint()?;
        let len = usize::try_from(len).map_err(|_| self.error(Fault::Truncated))?;
        self.take(len)
    }

    /// Takes UTF-8 text with a varint length before it.
    pub fn text(&mut self) -> Result<String> {
        let bytes = self.sized()?;
        String::from_utf8(bytes.to_vec()).or_else(|_| self.invalid("text"))
    }

    /// Returns the bytes that were not taken.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns true when all bytes were taken.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Fails unless all bytes were taken.
    pub fn finish(self) -> Result<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            self.invalid("length")
        }
    }
}

/// Appends values to a byte vector.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

macro_rules! put_number {
    ($name:ident, $type:ty) => {
        #[doc = concat!("A little-endian `", stringify!($type), "`.")]
        pub fn $name(&mut self, value: $type) -> &mut Self {
            self.bytes(&value.to_le_bytes())
        }
    };
}

impl Writer {
    /// Makes an empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    put_number!(u8, u8);
    put_number!(u16, u16);
    put_number!(u32, u32);
    put_number!(u64, u64);
    put_number!(i64, i64);

    /// Appends a LEB128 number.
    pub fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    /// Appends a varint length, then the bytes.
    pub fn sized(&mut self, bytes: &[u8]) -> &mut Self {
        self.varint(bytes.len() as u64).bytes(bytes)
    }

    /// Appends zero bytes up to the next multiple of `unit`.
    pub fn pad_to(&mut self, unit: usize) -> &mut Self {
        let len = self.0.len().next_multiple_of(unit);
        self.0.resize(len, 0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_refuse_overlong() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut w = Writer::new();
            w.varint(value);
            let mut r = Reader::new("test", &w.0);
            assert_eq!(r.varint(), Ok(value));
            assert!(r.is_empty());
        }
        assert!(Reader::new("test", &[0xff; 11]).varint().is_err());
        assert!(Reader::new("test", &[0x80]).varint().is_err());
    }

    #[test]
    fn a_length_past_the_end_is_an_error() {
        let mut w = Writer::new();
        w.varint(u64::MAX);
        assert!(Reader::new("test", &w.0).sized().is_err());
    }
}
