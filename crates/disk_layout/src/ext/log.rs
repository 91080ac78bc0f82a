//! Decodes the journal of ext3 and ext4 (jbd2): superblock, descriptors, revocations, commits.
//! `committed` collects what they say. Functions over bytes.
//!
//! Invariant: everything is bounded by the block it stands in; a wrong checksum decodes to nothing.

use crate::bytes::{array, be16, be32, be64, byte, crc32c, wide};

/// First bytes of every block that belongs to the journal itself.
pub const MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];

const INCOMPAT_64BIT: u32 = 2;
const INCOMPAT_CSUM_V2: u32 = 8;
const INCOMPAT_CSUM_V3: u32 = 16;
const INCOMPAT_FAST_COMMIT: u32 = 32;
const FLAG_ESCAPED: u32 = 1;
const FLAG_SAME_UUID: u32 = 2;
const FLAG_LAST: u32 = 8;
const HEADER_BYTES: usize = 12;
/// Blocks for fast commits when the superblock does not say how many.
const FAST_BLOCKS_DEFAULT: u32 = 256;

/// The journal's superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Journal {
    /// Block size, bytes.
    pub block_bytes: u32,
    /// First block of the log.
    pub first: u32,
    /// End of the log: the next block is `first` again.
    pub end: u32,
    /// First transaction in the log.
    pub sequence: u32,
    /// Block of that transaction; 0 if the log is empty.
    pub start: u32,
    incompat: u32,
    seed: u32,
}

/// A block that a transaction contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    /// Block of the file system.
    pub block: u64,
    /// Checksum of the copy, as many bits as the version keeps.
    pub checksum: u32,
    /// The first four bytes were replaced by zeroes.
    pub is_escaped: bool,
}

/// A block of the journal itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// Copies of these blocks follow it.
    Descriptor(u32, Vec<Tag>),
    /// Earlier copies of these blocks are void.
    Revocation(u32, Vec<u64>),
    /// The transaction is complete.
    Commit(u32),
    /// A superblock.
    Superblock,
}

impl Journal {
    /// Decodes the superblock.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let is_version_2 = match be32(bytes, 4)? {
            3 => false,
            4 => true,
            _ => return None,
        };
        let feature = |at| {
            if is_version_2 {
                be32(bytes, at)
            } else {
                Some(0)
            }
        };
        let incompat = feature(0x28)?;
        let (mut end, first) = (be32(bytes, 0x10)?, be32(bytes, 0x14)?);
        if incompat & INCOMPAT_FAST_COMMIT != 0 {
            let fast = match be32(bytes, 0x54)? {
                0 => FAST_BLOCKS_DEFAULT,
                fast => fast,
            };
            end = end.checked_sub(fast)?;
        }
        let is_sound = array(bytes, 0)? == MAGIC && first >= 1 && first < end;
        is_sound.then_some(Self {
            block_bytes: be32(bytes, 0xc)?,
            first,
            end,
            sequence: be32(bytes, 0x18)?,
            start: be32(bytes, 0x1c)?,
            incompat,
            seed: crc32c(!0, bytes.get(0x30..0x40)?),
        })
    }

    fn has_checksums(&self) -> bool {
        self.incompat & (INCOMPAT_CSUM_V2 | INCOMPAT_CSUM_V3) != 0
    }

    /// The block `n` blocks after `at` in the log.
    pub fn after(&self, at: u32, n: u32) -> u32 {
        let len = u64::from(self.end - self.first);
        let from = u64::from(at.saturating_sub(self.first)) + u64::from(n);
        self.first + (from % len) as u32
    }

    /// Decodes a block of the log; `None` for copies, and for damaged blocks.
    pub fn record(&self, bytes: &[u8]) -> Option<Record> {
        if array(bytes, 0)? != MAGIC {
            return None;
        }
        let sequence = be32(bytes, 8)?;
        match be32(bytes, 4)? {
            1 => Some(Record::Descriptor(
                sequence,
                self.tags(self.verified(bytes)?),
            )),
            2 => Some(Record::Commit(sequence)),
            3 | 4 => Some(Record::Superblock),
            5 => Some(Record::Revocation(
                sequence,
                self.revoked(self.verified(bytes)?)?,
            )),
            _ => None,
        }
    }

    /// The block without its checksum, which is right.
    fn verified<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        if !self.has_checksums() {
            return Some(bytes);
        }
        let at = bytes.len().checked_sub(4)?;
        let body = bytes.get(..at)?;
        let sum = crc32c(crc32c(self.seed, body), &[0; 4]);
        (sum == be32(bytes, at)?).then_some(body)
    }

    fn tags(&self, bytes: &[u8]) -> Vec<Tag> {
        let is_v3 = self.incompat & INCOMPAT_CSUM_V3 != 0;
        let is_64bit = self.incompat & INCOMPAT_64BIT != 0;
        let is_v2 = self.incompat & INCOMPAT_CSUM_V2 != 0;
        let len = match is_v3 {
            true => 16,
            // Version 2 made room for a checksum of 32 bits, and kept 16.
            false => 8 + usize::from(is_64bit) * 4 + usize::from(is_v2) * 2,
        };
        let tag = |at: usize| {
            bytes.get(at..at + len)?;
            let low = be32(bytes, at)?;
            let (flags, checksum) = if is_v3 {
                (be32(bytes, at + 4)?, be32(bytes, at + 12)?)
            } else {
                (
                    u32::from(be16(bytes, at + 6)?),
                    u32::from(be16(bytes, at + 4)?),
                )
            };
            let high = if is_64bit { be32(bytes, at + 8)? } else { 0 };
            let tag = Tag {
                block: wide(high, low),
                checksum,
                is_escaped: flags & FLAG_ESCAPED != 0,
            };
            Some((tag, flags))
        };
        let (mut tags, mut at) = (Vec::new(), HEADER_BYTES);
        while let Some((tag, flags)) = tag(at) {
            tags.push(tag);
            if flags & FLAG_LAST != 0 {
                break;
            }
            at += len;
            if flags & FLAG_SAME_UUID == 0 {
                at += 16;
            }
        }
        tags
    }

    fn revoked(&self, bytes: &[u8]) -> Option<Vec<u64>> {
        let used = be32(bytes, HEADER_BYTES)? as usize;
        let is_64bit = self.incompat & INCOMPAT_64BIT != 0;
        let len = if is_64bit { 8 } else { 4 };
        let entries = bytes.get(HEADER_BYTES + 4..used.min(bytes.len()))?;
        let number = |entry: &[u8]| match is_64bit {
            true => be64(entry, 0),
            false => be32(entry, 0).map(u64::from),
        };
        Some(entries.chunks_exact(len).filter_map(number).collect())
    }

    /// Returns the block that a copy stands for, if the copy is intact.
    pub fn restored(&self, tag: &Tag, sequence: u32, mut copy: Vec<u8>) -> Option<Vec<u8>> {
        let sum = || crc32c(crc32c(self.seed, &sequence.to_be_bytes()), &copy);
        let is_intact = if self.incompat & INCOMPAT_CSUM_V3 != 0 {
            sum() == tag.checksum
        } else if self.incompat & INCOMPAT_CSUM_V2 != 0 {
            sum() & 0xffff == tag.checksum
        } else {
            true
        };
        if !is_intact {
            return None;
        }
        if tag.is_escaped {
            byte(&copy, 3)?;
            copy.get_mut(..4)?.copy_from_slice(&MAGIC);
        }
        Some(copy)
    }
}
