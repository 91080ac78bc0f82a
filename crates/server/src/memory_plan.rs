//! Divides `--memory` among all consumers of memory. `serve`, `mount` and commands on volumes open
//! pools with the plan, and `status --memory-plan` shows it ([decision
//! 31](../../../docs/decisions/0031-one-memory-plan.md)).
//!
//! Invariant: arithmetic only. The shares add up to no more than the total. Every consumer of much
//! memory takes its limit from here.

use ssd_tier::BYTES_OF_INDEX_BYTE;
use store::PoolMemory;
use terminal::sizes;
use volumes::VolumesMemory;

/// Minimum memory, bytes: enough for one container and its queue.
pub const MEMORY_BYTES_MIN: u64 = 32 << 20;
/// Limits of the journal's buffers, bytes.
const JOURNAL_BYTES: (usize, usize) = (4 << 20, 32 << 20);
/// Maximum for large requests, bytes. More does not make them faster.
const REQUESTS_BYTES_MAX: usize = 512 << 20;
/// Memory of a server that no share contains.
const BESIDES: [&str; 4] = [
    "containers that are being filled or written, 4 to 16 MiB each",
    "connections, 2 MiB each",
    "requests of more than 1 MiB in flight: what they need beyond their share, up to 66 MiB an NBD \
     socket, 132 MiB an iSCSI socket",
    "reads of the fast tier, 8 MiB in all; memory of large replies, 4 MiB in all; code, stacks, and \
     what the allocator keeps",
];
/// Memory of a fast tier for chunks that wait to be written, bytes.
const TIER_BYTES_FIXED: u64 = 48 << 20;

/// Bytes for each consumer. 0 for consumers that do not exist in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// The total that is divided.
    pub all: usize,
    /// Memory for the pool: the sum of `pool`, rounded up.
    pub pool_bytes: usize,
    /// Shares of the pool.
    pub pool: PoolMemory,
    /// Memory for the volumes: the sum of `volumes`.
    pub volumes_bytes: u64,
    /// Shares of the volumes.
    pub volumes: VolumesMemory,
    /// Buffers of the journal.
    pub journal: usize,
    /// Cached directories of mounts.
    pub mounts: usize,
    /// Large requests of NBD clients in flight.
    pub requests: usize,
    /// Index and staged chunks of the fast tier.
    pub tier: usize,
    /// Knowledge of the blocks of served volumes, for classes of I/O.
    pub layouts: usize,
}

impl MemoryPlan {
    /// Plan of a server, or of a command that opens volumes. `journal_bytes` is the size of the
    /// journal. The pool gets six sixteenths, because the volumes' page cache has the data that
    /// clients read.
    pub fn of(bytes: usize, journal_bytes: u64) -> Self {
        let sixteenth = bytes / 16;
        let layouts = sixteenth / 2;
        let (pool_bytes, mounts) = (sixteenth * 6, sixteenth - layouts);
        let left = bytes - pool_bytes - mounts - layouts;
        let (fewest, most) = JOURNAL_BYTES;
        let journal = (left / 16).clamp(fewest, most);
        let requests = sixteenth.min(REQUESTS_BYTES_MAX);
        let volumes_bytes = left.saturating_sub(journal + requests) as u64;
        Self {
            all: bytes,
            pool_bytes,
            pool: PoolMemory::of(pool_bytes),
            volumes_bytes,
            volumes: VolumesMemory::of(volumes_bytes, journal_bytes),
            journal,
            mounts,
            requests,
            tier: 0,
            layouts,
        }
    }

    /// Plan of a server with a fast tier of that many bytes. The tier gets what its index needs for
    /// chunks of 4 KiB, at most a quarter.
    pub fn with_tier(bytes: usize, journal_bytes: u64, tier_bytes: u64) -> Self {
        let tier = Self::tier_of(bytes, tier_bytes);
        Self {
            all: bytes,
            tier,
            ..Self::of(bytes - tier, journal_bytes)
        }
    }

    /// Returns the memory for a tier of that many bytes.
    pub fn tier_of(bytes: usize, tier_bytes: u64) -> usize {
        let wanted = TIER_BYTES_FIXED + tier_bytes / BYTES_OF_INDEX_BYTE;
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let most = (bytes / 4).min(bytes.saturating_sub(MEMORY_BYTES_MIN as usize));
        match tier_bytes {
            0 => 0,
            _ => wanted.min(most),
        }
    }

    /// Plan of an image server, which opens the pool for reading only.
    pub fn of_images(bytes: usize) -> Self {
        let requests = (bytes / 16).min(REQUESTS_BYTES_MAX);
        let pool_bytes = bytes - requests;
        Self {
            all: bytes,
            pool_bytes,
            pool: PoolMemory::of(pool_bytes),
            requests,
            ..Self::default()
        }
    }

    /// Plan of a mount that opens the pool for reading only.
    pub fn of_mount(bytes: usize) -> Self {
        let mounts = bytes / 16;
        let pool_bytes = bytes - mounts;
        Self {
            all: bytes,
            pool_bytes,
            pool: PoolMemory::of(pool_bytes),
            mounts,
            ..Self::default()
        }
    }

    /// Returns the limit of one of this many NBD sockets for large reads, and again for large
    /// writes, bytes. A larger single request is still served.
    pub fn requests_of_socket(&self, sockets: usize) -> u64 {
        (self.requests / 2 / sockets.max(1)) as u64
    }

    /// Returns every consumer and its bytes. The names are those of the metric
    /// `quintet_memory_bytes`.
    pub fn shares(&self) -> [(&'static str, u64); 13] {
        // All fields are named, so that a new field must be handled here.
        let Self {
            all: _,
            pool_bytes: _,
            pool,
            volumes_bytes: _,
            volumes,
            journal,
            mounts,
            requests,
            tier,
            layouts,
        } = *self;
        let PoolMemory {
            index,
            directories,
            claims,
            regions,
        } = pool;
        let VolumesMemory {
            pages,
            pieces,
            events,
            trace,
        } = volumes;
        [
            ("pages", pages),
            ("pieces", pieces),
            ("events", events),
            ("trace", trace),
            ("journal", journal as u64),
            ("index", index as u64),
            ("directories", directories as u64),
            ("claims", claims as u64),
            ("regions", regions as u64),
            ("mounts", mounts as u64),
            ("requests", requests as u64),
            ("tier", tier as u64),
            ("layouts", layouts as u64),
        ]
    }

    /// Describes the plan, one consumer a line. `used` lists the present use of some consumers.
    pub fn lines(&self, used: &[(&str, u64)]) -> Vec<String> {
        let line = |(name, bytes): (&str, u64)| {
            let planned = sizes::display(bytes);
            match used.iter().find(|(owner, _)| *owner == name) {
                Some((_, used)) => format!("{name} {planned}, in use {}", sizes::display(*used)),
                None => format!("{name} {planned}"),
            }
        };
        let all = format!("{} in all", sizes::display(self.all as u64));
        let shares = self.shares().into_iter().map(line);
        let besides = BESIDES.into_iter().map(|what| format!("besides: {what}"));
        std::iter::once(all).chain(shares).chain(besides).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{MEMORY_BYTES_MIN, MemoryPlan};

    const MIB: usize = 1 << 20;

    /// Returns every MiB up to 4 GiB, then larger and larger steps up to 1 TiB, and odd sizes
    /// beside each.
    fn sizes() -> impl Iterator<Item = usize> {
        let small = (MEMORY_BYTES_MIN as usize / MIB..4096).map(|mib| mib * MIB);
        let large =
            (0..=8 * 128).map(|step| ((4096.0 * 2f64.powf(step as f64 / 128.0)) as usize) * MIB);
        let sizes = small.chain(large).chain([1 << 40]);
        sizes.flat_map(|bytes| [bytes, bytes + 1, bytes + 15, bytes + MIB - 1])
    }

    #[test]
    fn shares_sum_to_no_more_than_the_whole_and_waste_little() {
        for bytes in sizes() {
            let served = [2 << 20, 1 << 30, 64 << 30].map(|journal| MemoryPlan::of(bytes, journal));
            let [small, usual, large] = served;
            let others = [
                MemoryPlan::of_images(bytes),
                MemoryPlan::of_mount(bytes),
                MemoryPlan::with_tier(bytes, 1 << 30, 10 << 30),
                MemoryPlan::with_tier(bytes, 1 << 30, u64::MAX),
            ];
            for plan in [small, usual, large].into_iter().chain(others) {
                let sum: u64 = plan.shares().iter().map(|(_, share)| share).sum();
                assert!(sum <= bytes as u64, "{bytes}: {sum} planned");
                assert!(sum + 64 > bytes as u64, "{bytes}: only {sum} planned");
            }
            assert!(usual.volumes.pages > bytes as u64 / 4, "{bytes}: {usual:?}");
        }
    }

    #[test]
    fn a_tier_gets_what_its_index_needs_and_at_most_a_quarter() {
        let tier = |mib: usize, gib: u64| MemoryPlan::with_tier(mib * MIB, 1 << 30, gib << 30).tier;
        assert_eq!(tier(4096, 0), 0);
        assert_eq!(tier(4096, 100), (400 + 48) * MIB);
        assert_eq!(tier(1024, 100), 256 * MIB);
        assert_eq!(tier(32, 100), 0);
        let plan = MemoryPlan::with_tier(1024 * MIB, 1 << 30, 0);
        assert_eq!(plan, MemoryPlan::of(1024 * MIB, 1 << 30));
    }

    #[test]
    fn sockets_share_what_requests_get() {
        for (mib, sockets) in [(32, 2), (256, 1), (1024, 3), (8192, 1), (1 << 20, 3)] {
            let plan = MemoryPlan::of(mib * MIB, 1 << 30);
            let all = 2 * sockets as u64 * plan.requests_of_socket(sockets);
            assert!(all <= plan.requests as u64, "{mib} MiB, {sockets} sockets");
        }
        let of = |gib: usize| MemoryPlan::of(gib << 30, 1 << 30).requests_of_socket(1);
        assert_eq!((of(4), of(8), of(64)), (128 << 20, 256 << 20, 256 << 20));
        assert_eq!(
            MemoryPlan::of_images(1 << 30).requests_of_socket(0),
            32 << 20
        );
    }

    #[test]
    fn the_default_is_divided_as_the_handbook_says() {
        let plan = MemoryPlan::of(256 * MIB, 1 << 30);
        let mib = |name| {
            let shares = plan.shares();
            let share = shares.iter().find(|(n, _)| *n == name).unwrap().1;
            share as f64 / MIB as f64
        };
        assert_eq!((mib("index"), mib("directories")), (18.0, 18.0));
        assert_eq!((mib("claims"), mib("regions")), (12.0, 48.0));
        assert_eq!((mib("mounts"), mib("layouts")), (8.0, 8.0));
        assert_eq!(mib("requests"), 16.0);
        assert_eq!((mib("journal"), mib("pieces")), (9.0, 14.875));
        assert!((102.0..103.0).contains(&mib("pages")), "{}", mib("pages"));
    }
}
