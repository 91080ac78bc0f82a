//! What is read of the objects of a run: ranges of a trace, the hottest first, or all windows.
//!
//! Invariant: the order does not change while a run goes on. Called by the defragmenter.

use fragpicker::{HotRange, WINDOW_BYTES, hottest, windows};
use std::collections::BTreeMap;

/// By the key of an object: its ranges, ascending and apart.
pub type Heat = BTreeMap<u64, Vec<HotRange>>;

/// Bytes that are moved at once, at most: what is longer is more than one request.
const RANGE_BYTES_MAX: u64 = 4 << 20;

/// A range of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Of which object.
    pub object: u64,
    /// Bytes, and the weight of their requests.
    pub range: HotRange,
    /// It is among those that are read most.
    pub is_hot: bool,
}

/// See the module's head.
pub struct Load {
    objects: Vec<(u64, u64)>,
    traced: Option<(Vec<Item>, Heat)>,
}

impl Load {
    /// Of these objects (key, bytes).
    pub fn new(objects: &[(u64, u64)], heat: Option<Heat>, hot_percent: u8) -> Self {
        let traced = heat.map(|heat| {
            let items = objects.iter().flat_map(|(object, size)| {
                let ranges = heat.get(object).map_or(&[][..], Vec::as_slice);
                let parts = split(ranges, *size);
                let hot = hottest(parts.clone(), hot_percent);
                let is_hot = move |range: &HotRange| {
                    hot.binary_search_by_key(&range.start, |h| h.start).is_ok()
                };
                let item = move |range: HotRange| Item {
                    object: *object,
                    is_hot: is_hot(&range),
                    range,
                };
                parts.into_iter().map(item)
            });
            let mut items: Vec<_> = items.collect();
            items.sort_by_key(|item| std::cmp::Reverse(item.range.weight));
            (items, heat)
        });
        Self {
            objects: objects.to_vec(),
            traced,
        }
    }

    pub fn is_traced(&self) -> bool {
        self.traced.is_some()
    }

    pub fn objects(&self) -> &[(u64, u64)] {
        &self.objects
    }

    /// Ranges.
    pub fn len(&self) -> usize {
        match &self.traced {
            Some((items, _)) => items.len(),
            None => {
                let windows = |(_, size): &(u64, u64)| size.div_ceil(WINDOW_BYTES) as usize;
                self.objects.iter().map(windows).sum()
            }
        }
    }

    /// What is read of an object, whether of the run or not; `None`: there is no trace.
    pub fn heat_of(&self, object: u64) -> Option<&[HotRange]> {
        let (_, heat) = self.traced.as_ref()?;
        Some(heat.get(&object).map_or(&[], Vec::as_slice))
    }

    /// The range of this number.
    pub fn get(&self, number: usize) -> Option<Item> {
        if let Some((items, _)) = &self.traced {
            return items.get(number).copied();
        }
        let mut number = number;
        for (object, size) in &self.objects {
            let count = size.div_ceil(WINDOW_BYTES) as usize;
            if number < count {
                let start = number as u64 * WINDOW_BYTES;
                let mut window = windows(size - start);
                return window.next().map(|window| Item {
                    object: *object,
                    range: HotRange {
                        start,
                        end: start + window.end,
                        weight: window.weight,
                    },
                    is_hot: true,
                });
            }
            number -= count;
        }
        None
    }
}

/// Cut to the object, and none longer than what is moved at once.
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

    fn range(start: u64, end: u64, weight: u64) -> HotRange {
        HotRange { start, end, weight }
    }

    #[test]
    fn windows_of_all_objects_in_turn() {
        const W: u64 = WINDOW_BYTES;
        let load = Load::new(&[(7, 2 * W + 1), (9, 0), (3, W)], None, 10);
        assert_eq!(load.len(), 4);
        let seen: Vec<_> = (0..).map_while(|n| load.get(n)).collect();
        let places = seen.iter().map(|i| (i.object, i.range.start, i.range.end));
        let places: Vec<_> = places.collect();
        assert_eq!(
            places,
            [(7, 0, W), (7, W, 2 * W), (7, 2 * W, 2 * W + 1), (3, 0, W)]
        );
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
        let load = Load::new(&[(1, 100), (2, 100)], Some(heat), 50);
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
