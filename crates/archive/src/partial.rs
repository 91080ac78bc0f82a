//! Damaged ranges of a file, and the marks of a file that lacks them. Restores with `--partial` use
//! them.
//!
//! Invariant: an incomplete file differs from a complete one by an attribute that names the missing
//! ranges, and by a modification time that no later backup or restore takes for the stored one.

use format::tree::{Entry, Timestamp};
use std::ffi::CStr;
use std::ops::Range;

/// The attribute that names the damaged ranges: OFFSET+LENGTH, with commas.
pub const DAMAGED_ATTRIBUTE: &CStr = c"user.quintet.damaged";

/// Maximum bytes of the attribute's value: some file systems have 4 KiB for all attributes of a
/// file.
const ATTRIBUTE_BYTES_MAX: usize = 1024;
/// Maximum number of ranges in a message.
const RANGES_SHOWN: usize = 8;

/// Ascending, with gaps between any two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamagedRanges(Vec<Range<u64>>);

impl DamagedRanges {
    /// Adds a range after the others.
    pub fn add(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        match self.0.last_mut() {
            Some(last) if last.end == offset => last.end = end,
            _ => self.0.push(offset..end),
        }
    }

    /// Returns true if nothing is damaged.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of damaged bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    /// The ranges as text, shortened.
    pub fn text(&self) -> String {
        let shown = self.0.iter().take(RANGES_SHOWN);
        let shown: Vec<String> = shown.map(|r| format!("{}..{}", r.start, r.end)).collect();
        let more = match self.0.len().saturating_sub(RANGES_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        shown.join(", ") + &more
    }

    /// The attribute's value. One that does not fit ends with three dots.
    pub fn attribute(&self) -> Vec<u8> {
        let mut value = String::new();
        for range in &self.0 {
            let next = format!("{}+{}", range.start, range.end - range.start);
            if value.len() + next.len() > ATTRIBUTE_BYTES_MAX {
                value.push_str(",...");
                break;
            }
            if !value.is_empty() {
                value.push(',');
            }
            value.push_str(&next);
        }
        value.into_bytes()
    }

    /// Returns the metadata of a file without these ranges.
    pub fn mark(&self, entry: &Entry) -> Entry {
        let mut entry = entry.clone();
        // Older than any stored time: neither "unchanged" nor "newer".
        entry.modified = Timestamp::default();
        let name = DAMAGED_ATTRIBUTE.to_bytes();
        entry.xattrs.retain(|(given, _)| given != name);
        entry.xattrs.push((name.to_vec(), self.attribute()));
        entry.xattrs.sort_unstable();
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_are_bounded() {
        let mut ranges = DamagedRanges::default();
        assert!(ranges.is_empty());
        for (offset, len) in [(0, 4), (4, 6), (20, 1)] {
            ranges.add(offset, len);
        }
        assert_eq!(ranges.0, [0..10, 20..21]);
        assert_eq!(
            (ranges.bytes(), ranges.text().as_str()),
            (11, "0..10, 20..21")
        );
        assert_eq!(ranges.attribute(), b"0+10,20+1");
        (0..1000).for_each(|n| ranges.add(100 + 10 * n, 1));
        assert!(ranges.attribute().len() <= ATTRIBUTE_BYTES_MAX + 5);
        assert!(ranges.attribute().ends_with(b",..."));
        assert!(ranges.text().ends_with(" and 994 more"));
    }
}
