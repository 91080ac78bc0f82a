//! Chooses small containers to merge, even if all of their chunks are live. The collector calls
//! this.
//!
//! A container costs a header, a directory, a file and mark bits however little it holds, so
//! thousands of commits of a few pages cost more than their pages. As in size-tiered log-structured
//! stores (Bigtable, OSDI'06, section 5.4), small ones are merged into one that is several times as
//! large as any of them. Data is therefore copied once for each such step in the size of its
//! container, and no more once the container is not small.
//!
//! Invariant: no I/O. The chosen containers together have at least half of `merge_ratio_min` times
//! the bytes of the largest of them. If every container that was left out is at least as large as
//! the merged result, neither they nor the result are chosen again.

use format::container::ContainerClass;
use std::cmp::Reverse;
use units::ContainerId;

/// A small container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Small {
    pub id: ContainerId,
    pub class: ContainerClass,
    /// Plain bytes that a merge would copy.
    pub live_bytes: u64,
}

/// Returns the containers of `small` to merge, of each class separately. `room_bytes` limits the
/// copies of all.
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

/// Returns the number of the smallest containers to merge, and their bytes. The ratio that begins a
/// merge is twice the ratio that lets a container join: otherwise the small containers that a run
/// itself makes could begin the next.
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
