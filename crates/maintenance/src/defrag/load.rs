//! The load of a run: the ranges of a trace, hottest first, then those that belong into small
//! regions; or all windows of disks and all segments of streams. The defragmenter calls this.
//!
//! Invariant: the order does not change during a run.

use format::defrag::{DefragObject, DefragRange};
use format::recipe::{Layout, ObjectRoot};
use fragpicker::{HotRange, REQUEST_WEIGHT, SEGMENT_BYTES, hottest, hottest_chunks};
use std::collections::BTreeMap;
use std::ops::Range;
use store::read_at_once;

/// Maximum number of objects, or of trace ranges, of a run: a record has space for no more. The
/// hottest stay.
const ENTRIES_MAX: usize = format::defrag::ENTRIES_MAX;
/// Part of them that may be ranges for small regions.
const SMALL_PART: usize = 4;

/// Ranges of each object by its key, ascending and disjoint.
pub type Heat = BTreeMap<u64, Vec<HotRange>>;

/// Maximum number of bytes moved together: a longer range is more than one request.
const RANGE_BYTES_MAX: u64 = 4 << 20;

/// A range of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Key of the object.
    pub object: u64,
    /// Bytes, and the weight of their requests.
    pub range: HotRange,
    /// The range is among the hottest.
    pub is_hot: bool,
    /// The range is whole chunks that random reads fetch in large regions.
    pub is_small: bool,
    /// The range is a segment of an object that is read from begin to end, by readers with some
    /// memory.
    pub is_segment: bool,
}

/// An object of a run.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Key of the object.
    pub key: u64,
    /// Size of the object.
    pub bytes: u64,
    /// Bytes that are read together, unless a trace says otherwise.
    pub read_at_once: u64,
    /// Length of its chunks, if all have the same. Unknown for a run that is resumed.
    pub chunk_bytes: Option<u64>,
}

impl Subject {
    /// Creates the subject of an object.
    pub fn of(key: u64, root: &ObjectRoot) -> Self {
        Self {
            key,
            bytes: root.len,
            read_at_once: read_at_once(root),
            chunk_bytes: match root.layout {
                Layout::Fixed(log2) => 1u64.checked_shl(log2.into()),
                Layout::Variable => None,
            },
        }
    }

    fn windows(&self) -> usize {
        self.bytes.div_ceil(self.read_at_once.max(1)) as usize
    }
}

/// See the module's head.
pub struct Load {
    objects: Vec<Subject>,
    traced: Option<(Vec<Item>, Heat)>,
    /// Number of the first range that belongs into small regions, if there is one.
    first_small: Option<usize>,
    /// These ranges by object, ascending.
    small: BTreeMap<u64, Vec<Range<u64>>>,
}

impl Load {
    /// Creates the load of these objects. With a trace, `amplified` has the short reads of which
    /// random reads fetch more than they need.
    pub fn new(objects: &[Subject], heat: Option<Heat>, amplified: &Heat, hot_percent: u8) -> Self {
        let traced = heat.map(|heat| {
            let items = objects.iter().flat_map(|subject| {
                let ranges = heat.get(&subject.key).map_or(&[][..], Vec::as_slice);
                let parts = split(ranges, subject.bytes);
                let hot = hottest(parts.clone(), hot_percent);
                let is_hot = move |range: &HotRange| {
                    hot.binary_search_by_key(&range.start, |h| h.start).is_ok()
                };
                let item = move |range: HotRange| Item {
                    object: subject.key,
                    is_hot: is_hot(&range),
                    is_small: false,
                    is_segment: false,
                    range,
                };
                parts.into_iter().map(item)
            });
            let mut items: Vec<_> = items.collect();
            items.sort_by_key(|item| std::cmp::Reverse(item.range.weight));
            let small = small_items(objects, amplified, ENTRIES_MAX / SMALL_PART);
            items.truncate(ENTRIES_MAX - small.len());
            items.extend(small);
            (items, heat)
        });
        Self::of(objects.iter().take(ENTRIES_MAX).copied().collect(), traced)
    }

    fn of(objects: Vec<Subject>, traced: Option<(Vec<Item>, Heat)>) -> Self {
        let items = traced.as_ref().map_or(&[][..], |(items, _)| items);
        let mut small: BTreeMap<u64, Vec<Range<u64>>> = BTreeMap::new();
        for item in items.iter().filter(|item| item.is_small) {
            let ranges = small.entry(item.object).or_default();
            ranges.push(item.range.start..item.range.end);
        }
        Self {
            first_small: items.iter().position(|item| item.is_small),
            small,
            objects,
            traced,
        }
    }

    /// Restores the load that another process began. With a trace, the present heat serves to judge
    /// owners.
    pub fn stored(objects: &[DefragObject], ranges: &[DefragRange], heat: Option<Heat>) -> Self {
        let objects = objects.iter().map(|one| Subject {
            key: one.key,
            bytes: one.bytes,
            read_at_once: one.read_at_once.max(1),
            chunk_bytes: None,
        });
        let item = |one: &DefragRange| Item {
            object: one.object,
            range: HotRange {
                start: one.start,
                end: one.end,
                weight: one.weight,
            },
            is_hot: one.is_hot,
            is_small: one.is_small,
            is_segment: false,
        };
        let traced = heat.map(|heat| (ranges.iter().map(item).collect(), heat));
        Self::of(objects.collect(), traced)
    }

    /// Returns what a record stores of the load.
    pub fn to_store(&self) -> (Vec<DefragObject>, Vec<DefragRange>) {
        let objects = self.objects.iter().map(|one| DefragObject {
            key: one.key,
            bytes: one.bytes,
            read_at_once: one.read_at_once,
        });
        let items = self.traced.iter().flat_map(|(items, _)| items);
        let ranges = items.map(|item| DefragRange {
            object: item.object,
            start: item.range.start,
            end: item.range.end,
            weight: item.range.weight,
            is_hot: item.is_hot,
            is_small: item.is_small,
        });
        (objects.collect(), ranges.collect())
    }

    pub fn is_traced(&self) -> bool {
        self.traced.is_some()
    }

    pub fn objects(&self) -> &[Subject] {
        &self.objects
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        match &self.traced {
            Some((items, _)) => items.len(),
            None => self.objects.iter().map(Subject::windows).sum(),
        }
    }

    /// Number of ranges that belong into small regions: the last ones.
    pub fn small_len(&self) -> usize {
        self.first_small.map_or(0, |first| self.len() - first)
    }

    /// Returns these ranges by object, ascending.
    pub fn small(&self) -> &BTreeMap<u64, Vec<Range<u64>>> {
        &self.small
    }

    /// Returns true for the number of the first of them.
    pub fn is_first_small(&self, number: usize) -> bool {
        self.first_small == Some(number)
    }

    /// Returns the reads of an object, of the run or not; `None` without a trace.
    pub fn heat_of(&self, object: u64) -> Option<&[HotRange]> {
        let (_, heat) = self.traced.as_ref()?;
        Some(heat.get(&object).map_or(&[], Vec::as_slice))
    }

    /// Returns the range with this number.
    pub fn get(&self, number: usize) -> Option<Item> {
        if let Some((items, _)) = &self.traced {
            return items.get(number).copied();
        }
        let mut number = number;
        for subject in &self.objects {
            let count = subject.windows();
            if number < count {
                let start = number as u64 * subject.read_at_once;
                let end = start.saturating_add(subject.read_at_once);
                return Some(Item {
                    object: subject.key,
                    range: HotRange {
                        start,
                        end: end.min(subject.bytes),
                        weight: REQUEST_WEIGHT,
                    },
                    is_hot: true,
                    is_small: false,
                    is_segment: subject.read_at_once == SEGMENT_BYTES,
                });
            }
            number -= count;
        }
        None
    }
}

/// Returns the items of the objects that belong into small regions, in the order of the objects.
/// Only objects whose chunks have one size are read at random.
fn small_items(objects: &[Subject], amplified: &Heat, count_max: usize) -> Vec<Item> {
    let of = |subject: &Subject| {
        let ranges = amplified.get(&subject.key).map_or(&[][..], Vec::as_slice);
        let key = subject.key;
        let chunks = match subject.chunk_bytes {
            Some(chunk_bytes) => hottest_chunks(ranges, subject.bytes, chunk_bytes),
            None => Vec::new(),
        };
        chunks.into_iter().map(move |range| Item {
            object: key,
            range,
            is_hot: true,
            is_small: true,
            is_segment: false,
        })
    };
    let mut items: Vec<_> = objects.iter().flat_map(of).collect();
    items.truncate(count_max);
    items
}

/// Cuts ranges to the object's size and to [`RANGE_BYTES_MAX`].
fn split(ranges: &[HotRange], size: u64) -> Vec<HotRange> {
    let mut parts = Vec::new();
    for range in ranges {
        let (mut start, end) = (range.start, range.end.min(size));
        while start < end {
            let to = end.min(start.saturating_add(RANGE_BYTES_MAX));
            parts.push(HotRange {
                start,
                end: to,
                weight: range.weight,
            });
            start = to;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use fragpicker::WINDOW_BYTES;

    fn subject(key: u64, bytes: u64, read_at_once: u64) -> Subject {
        Subject {
            key,
            bytes,
            read_at_once,
            chunk_bytes: Some(16 << 10),
        }
    }

    fn range(start: u64, end: u64, weight: u64) -> HotRange {
        HotRange { start, end, weight }
    }

    #[test]
    fn windows_of_all_objects_in_turn() {
        const W: u64 = WINDOW_BYTES;
        const S: u64 = SEGMENT_BYTES;
        let objects = [
            subject(7, 2 * W + 1, W),
            subject(9, 0, W),
            subject(3, W, W),
            subject(4, S + 1, S),
        ];
        let load = Load::new(&objects, None, &Heat::new(), 10);
        assert_eq!(load.len(), 6);
        let seen: Vec<_> = (0..).map_while(|n| load.get(n)).collect();
        let places = seen.iter().map(|i| (i.object, i.range.start, i.range.end));
        let places: Vec<_> = places.collect();
        assert_eq!(
            places,
            [
                (7, 0, W),
                (7, W, 2 * W),
                (7, 2 * W, 2 * W + 1),
                (3, 0, W),
                (4, 0, S),
                (4, S, S + 1)
            ]
        );
        let segments: Vec<_> = seen.iter().map(|item| item.is_segment).collect();
        assert_eq!(segments, [false, false, false, false, true, true]);
        assert!(seen.iter().all(|item| item.is_hot));
        assert_eq!(load.heat_of(7), None);
    }

    #[test]
    fn the_hottest_come_first_and_the_percentage_is_of_each_object() {
        let heat = Heat::from([
            (1, vec![range(0, 10, 5), range(10, 20, 50)]),
            (2, vec![range(0, 10, 7), range(90, 200, 3)]),
            (5, vec![range(0, 9, 999)]),
        ]);
        let objects = [1, 2].map(|key| subject(key, 100, WINDOW_BYTES));
        let load = Load::new(&objects, Some(heat), &Heat::new(), 50);
        let seen: Vec<_> = (0..).map_while(|n| load.get(n)).collect();
        let weights: Vec<_> = seen.iter().map(|i| (i.range.weight, i.is_hot)).collect();
        assert_eq!(weights, [(50, true), (7, true), (5, false), (3, false)]);
        assert_eq!(seen[3].range.end, 100, "cut to the object");
        assert_eq!(load.heat_of(5).map(<[_]>::len), Some(1));
        assert_eq!(load.heat_of(6), Some(&[][..]));
    }

    #[test]
    fn long_ranges_are_moved_in_parts() {
        let parts = split(&[range(1, 2 * RANGE_BYTES_MAX + 2, 4)], u64::MAX);
        assert_eq!(parts.len(), 3);
        assert_eq!(parts[2].end, 2 * RANGE_BYTES_MAX + 2);
    }
}
