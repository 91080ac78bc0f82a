//! Bytes on top of other bytes: written pages hide those below. The blobs and files of a dry run
//! call this; they supply the reads below.
//!
//! Invariant: a byte is the one that was written last, otherwise the one below, otherwise zero.

use media::MediaError;
use std::collections::BTreeMap;

/// Size of a page, bytes.
pub(super) const PAGE_BYTES: usize = 4096;

/// Fills the slice with the bytes below, starting at an offset.
pub(super) type ReadBelow<'a> = dyn Fn(u64, &mut [u8]) -> Result<(), MediaError> + 'a;

/// See the module's head.
#[derive(Default)]
pub(super) struct Pages {
    len: u64,
    /// Bytes below this offset may come from below; beyond it they are zero.
    below_len: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Pages {
    /// Creates pages over `below_len` bytes, with nothing written.
    pub fn over(below_len: u64) -> Self {
        Self {
            len: below_len,
            below_len,
            pages: BTreeMap::new(),
        }
    }

    /// Creates `len` zero bytes over nothing.
    pub fn zeroes(len: u64) -> Self {
        Self {
            len,
            ..Self::default()
        }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.below_len = self.below_len.min(len);
            let cut = len / PAGE_BYTES as u64;
            self.pages.retain(|page, _| *page <= cut);
            if let Some(last) = self.pages.get_mut(&cut) {
                let kept = (len % PAGE_BYTES as u64) as usize;
                last.iter_mut().skip(kept).for_each(|byte| *byte = 0);
            }
        }
        self.len = len;
    }

    /// Returns false and reads nothing if `into` extends past the end.
    pub fn read(
        &self,
        offset: u64,
        into: &mut [u8],
        below: &ReadBelow<'_>,
    ) -> Result<bool, MediaError> {
        let end = offset.saturating_add(into.len() as u64);
        if end > self.len {
            return Ok(false);
        }
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            let (page, within) = (at / PAGE_BYTES as u64, (at % PAGE_BYTES as u64) as usize);
            let written = self.pages.get(&page);
            let count = match written {
                Some(_) => PAGE_BYTES - within,
                // Up to the next written page, in one read.
                None => {
                    let next = self.pages.range(page..).next().map(|(page, _)| *page);
                    let next = next.map_or(u64::MAX, |page| page * PAGE_BYTES as u64);
                    usize::try_from(next - at).unwrap_or(usize::MAX)
                }
            };
            let (some, later) = rest.split_at_mut(count.min(rest.len()));
            match written {
                Some(bytes) => {
                    let bytes = bytes.iter().skip(within);
                    some.iter_mut()
                        .zip(bytes)
                        .for_each(|(to, from)| *to = *from);
                }
                None => self.read_below(at, some, below)?,
            }
            at += some.len() as u64;
            rest = later;
        }
        Ok(true)
    }

    fn read_below(
        &self,
        at: u64,
        into: &mut [u8],
        below: &ReadBelow<'_>,
    ) -> Result<(), MediaError> {
        let there = usize::try_from(self.below_len.saturating_sub(at)).unwrap_or(usize::MAX);
        let (some, zero) = into.split_at_mut(there.min(into.len()));
        zero.fill(0);
        match some.is_empty() {
            true => Ok(()),
            false => below(at, some),
        }
    }

    /// Writes, and grows if `data` extends past the end.
    pub fn write(
        &mut self,
        offset: u64,
        data: &[u8],
        below: &ReadBelow<'_>,
    ) -> Result<(), MediaError> {
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let (page, within) = (at / PAGE_BYTES as u64, (at % PAGE_BYTES as u64) as usize);
            let (some, later) = rest.split_at(rest.len().min(PAGE_BYTES - within));
            if !self.pages.contains_key(&page) {
                let mut bytes = vec![0; PAGE_BYTES];
                if some.len() < PAGE_BYTES {
                    self.read_below(page * PAGE_BYTES as u64, &mut bytes, below)?;
                }
                self.pages.insert(page, bytes);
            }
            let kept = self.pages.get_mut(&page).into_iter().flatten();
            kept.skip(within)
                .zip(some)
                .for_each(|(to, from)| *to = *from);
            at += some.len() as u64;
            rest = later;
        }
        self.len = self.len.max(offset.saturating_add(data.len() as u64));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BELOW: [u8; 10_000] = [7; 10_000];

    fn below(at: u64, into: &mut [u8]) -> Result<(), MediaError> {
        let at = at as usize;
        into.copy_from_slice(&BELOW[at..at + into.len()]);
        Ok(())
    }

    #[test]
    fn what_is_written_hides_what_lies_below() {
        let mut pages = Pages::over(10_000);
        pages.write(4090, &[1; 20], &below).unwrap();
        pages.write(12_000, &[2; 5], &below).unwrap();
        let mut model = BELOW.to_vec();
        model.resize(12_005, 0);
        model[4090..4110].fill(1);
        model[12_000..].fill(2);
        let mut found = vec![9; 12_005];
        assert!(pages.read(0, &mut found, &below).unwrap());
        assert_eq!(found, model);
        assert!(!pages.read(12_000, &mut [0; 6], &below).unwrap());
        // Bytes that were cut off stay zero.
        pages.set_len(4100);
        pages.set_len(9000);
        model.truncate(4100);
        model.resize(9000, 0);
        let mut found = vec![9; 9000];
        assert!(pages.read(0, &mut found, &below).unwrap());
        assert_eq!(found, model);
    }
}
