//! Which small containers are merged although all in them may be needed.
//!
//! Each costs a header, a directory, a file and bits of its own whatever it holds, so thousands of commits of
//! a few pages cost more than their pages. As in size-tiered log-structured stores (Bigtable, OSDI'06, section 5.4): small
//! ones go together into one that is several times as large as any of them, so what is merged is copied once
//! for each such step of its container's size, and not again once that is no longer small.
//!
//! Invariant: nothing here reads or writes. What is chosen holds at least half of
//! `merge_ratio_min` times its largest; when nothing that holds less than all of it was left, neither
//! that nor what comes of it is chosen again. Called by the collector.

use format::container::ContainerClass;
use std::cmp::Reverse;
use units::ContainerId;

/// A small container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Small {
    pub id: ContainerId,
    pub class: ContainerClass,
    /// Plain bytes that would be copied.
    pub live_bytes: u64,
}

/// Those of `small` that are to be merged, of each class by itself. `room_bytes` is what may be copied in all.
pub(super) fn to_merge(small: &[Small], ratio_min: u64, mut room_bytes: u64) -> Vec<Small> {
    let mut chosen = Vec::new();
    if ratio_min < 2 {
        return chosen;
    }
    for class in [ContainerClass::Recipe, ContainerClass::Data] {
        let mut of_class: Vec<_> = small.iter().filter(|s| s.class == class).copied().collect();
        of_class.sort_unstable_by_key(|s| (s.live_bytes, Reverse(s.id)));
        let (count, bytes) = longest(&of_class, ratio_min, room_bytes);
        room_bytes = room_bytes.saturating_sub(bytes);
        chosen.extend(of_class.drain(..count));
    }
    chosen
}

/// How many of the smallest, and their bytes. What begins a merge is twice of what may join it: else the
/// small containers that a run itself makes could begin the next.
fn longest(ascending: &[Small], ratio_min: u64, room_bytes: u64) -> (usize, u64) {
    let (mut bytes, mut begun, mut best) = (0u64, false, (0, 0));
    for (before, small) in ascending.iter().enumerate() {
        bytes = bytes.saturating_add(small.live_bytes);
        if bytes > room_bytes {
            break;
        }
        let ratio = bytes / small.live_bytes.max(1);
        begun |= ratio >= ratio_min;
        if ratio >= ratio_min.div_ceil(2) {
            best = (before + 1, bytes);
        }
    }
    if begun { best } else { (0, 0) }
}

#[cfg(test)]
mod tests;
