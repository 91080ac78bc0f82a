//! Keeps a directory object in its stored form and decodes entries on demand. Code that keeps
//! directories in memory uses this.
//!
//! Invariant: the result equals [`Entry::decode_directory`]. All entries were decoded once, so
//! later nothing fails. It takes the object's length and four bytes an entry: less than half of
//! decoded entries.

use super::{DIRECTORY_VERSION, Entry};
use crate::bytes::{Fault, Reader, Result};

const WHAT: &str = "directory object";

/// A directory object in its stored form.
#[derive(Clone, Debug)]
pub struct Directory {
    bytes: Vec<u8>,
    /// Start of each entry.
    starts: Vec<u32>,
}

impl Directory {
    /// Checks a directory object: at most 4 GiB, names ascend strictly.
    pub fn new(bytes: Vec<u8>) -> Result<Self> {
        let mut r = Reader::new(WHAT, &bytes);
        let version = r.u8()?;
        if version != DIRECTORY_VERSION {
            return Err(r.error(Fault::Version(version.into())));
        }
        let mut starts = Vec::new();
        let mut last: Option<Entry> = None;
        loop {
            let at = bytes.len() - r.rest().len();
            let Some(entry) = Entry::decode_next(&mut r)? else {
                break;
            };
            if last.is_some_and(|last| last.name >= entry.name) {
                return r.invalid("order of names");
            }
            starts.push(u32::try_from(at).or_else(|_| r.invalid("length"))?);
            last = Some(entry);
        }
        Ok(Self { bytes, starts })
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns true without entries.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Returns entry `number`, counted from 0 in the order of names.
    pub fn entry(&self, number: usize) -> Option<Entry> {
        let at = *self.starts.get(number)? as usize;
        let mut r = Reader::new(WHAT, self.bytes.get(at..)?);
        Entry::decode_next(&mut r).ok().flatten()
    }

    /// Returns the entry called `name`, and its number.
    pub fn find(&self, name: &[u8]) -> Option<(usize, Entry)> {
        let numbers = 0..self.len();
        let (mut low, mut high) = (numbers.start, numbers.end);
        while low < high {
            let middle = low.midpoint(high);
            let entry = self.entry(middle)?;
            match entry.name.as_slice().cmp(name) {
                std::cmp::Ordering::Equal => return Some((middle, entry)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Returns the memory that this takes, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.starts.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{EntryKind, Timestamp};

    fn entry(name: String) -> Entry {
        Entry {
            name: name.into_bytes(),
            kind: EntryKind::Fifo,
            mode: 0o644,
            uid: 1,
            gid: 2,
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            inode: 3,
            device: 4,
            links: 1,
            xattrs: vec![(b"user.a".to_vec(), b"value".to_vec())],
        }
    }

    #[test]
    fn entries_one_at_a_time_are_those_decoded_at_once() {
        for count in [0, 1, 2, 3, 100] {
            let entries: Vec<Entry> = (0..count).map(|n| entry(format!("{n:05}"))).collect();
            let bytes = Entry::encode_directory(&entries);
            let directory = Directory::new(bytes).unwrap();
            assert_eq!((directory.len(), directory.is_empty()), (count, count == 0));
            let all: Vec<Entry> = (0..count).filter_map(|n| directory.entry(n)).collect();
            assert_eq!(all, entries);
            for (number, entry) in entries.iter().enumerate() {
                assert_eq!(directory.find(&entry.name), Some((number, entry.clone())));
            }
            assert!(directory.entry(count).is_none());
            for absent in [&b""[..], b"0", b"00000x", b"zzz"] {
                assert!(directory.find(absent).is_none());
            }
        }
    }

    #[test]
    fn what_is_wrong_is_reported_at_once() {
        let right = Entry::encode_directory(&[entry("a".into()), entry("b".into())]);
        assert!(Directory::new(right.clone()).is_ok());
        assert!(Directory::new(Vec::new()).is_err());
        for len in 2..right.len() {
            let cut = right.get(..len).unwrap().to_vec();
            let expected = Entry::decode_directory(&cut).map(|entries| entries.len());
            assert_eq!(Directory::new(cut).map(|d| d.len()), expected, "{len}");
        }
        let unordered = Entry::encode_directory(&[entry("b".into()), entry("a".into())]);
        assert!(Directory::new(unordered).is_err());
        let mut version = right;
        if let Some(first) = version.first_mut() {
            *first = 9;
        }
        assert!(Directory::new(version).is_err());
    }
}
