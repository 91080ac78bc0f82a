//! `--memory`, divided: one table with a share for every consumer.
//!
//! Invariant: pure arithmetic; the shares sum to no more than the whole, and whoever keeps much in
//! memory has its number from here. `serve`, `mount` and commands on volumes open pools with it;
//! `status --memory-plan` shows it ([decision 31](../../../docs/decisions/0031-one-memory-plan.md)).

use crate::sizes;
use store::PoolMemory;
use volumes::VolumesMemory;

/// Fewest and most bytes of the journal's buffers.
const JOURNAL_BYTES: (usize, usize) = (4 << 20, 32 << 20);
/// Large requests get no more, bytes: more does not make them faster.
const REQUESTS_BYTES_MAX: usize = 512 << 20;

/// Bytes for each consumer; 0 for those that are not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// What is divided.
    pub all: usize,
    /// What the pool is opened with: the sum of `pool`, rounded up.
    pub pool_bytes: usize,
    /// The pool's shares.
    pub pool: PoolMemory,
    /// What the volumes are opened with: the sum of `volumes`.
    pub volumes_bytes: u64,
    /// The volumes' shares.
    pub volumes: VolumesMemory,
    /// Buffers of the journal.
    pub journal: usize,
    /// Directories that mounts show.
    pub mounts: usize,
    /// Large requests of NBD clients that are under way.
    pub requests: usize,
}

impl MemoryPlan {
    /// Of a server, or of a command that opens volumes; their journal has so many bytes. The pool gets
    /// six sixteenths: what clients read is in the page cache of the volumes.
    pub fn of(bytes: usize, journal_bytes: u64) -> Self {
        let sixteenth = bytes / 16;
        let (pool_bytes, mounts) = (sixteenth * 6, sixteenth);
        let left = bytes - pool_bytes - mounts;
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
        }
    }

    /// Of a server of images that holds no pool.
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

    /// Of a mount that holds no pool.
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

    /// What one of so many NBD sockets may take for large reads, and as much again for large writes,
    /// bytes. The largest request is served even if it needs more.
    pub fn requests_of_socket(&self, sockets: usize) -> u64 {
        (self.requests / 2 / sockets.max(1)) as u64
    }

    /// Every consumer and its bytes. Names are those of the metric `quintet_memory_bytes`.
    pub fn shares(&self) -> [(&'static str, u64); 11] {
        // All fields, so that a new one is not forgotten.
        let Self {
            all: _,
            pool_bytes: _,
            pool,
            volumes_bytes: _,
            volumes,
            journal,
            mounts,
            requests,
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
        ]
    }

    /// For people, a line a consumer; `used` knows what some have in use.
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
        std::iter::once(all).chain(shares).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryPlan;
    use crate::settings::MEMORY_BYTES_MIN;

    const MIB: usize = 1 << 20;

    /// Every MiB up to 4 GiB, then ever larger steps up to 1 TiB, and odd sizes beside each.
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
            let others = [MemoryPlan::of_images(bytes), MemoryPlan::of_mount(bytes)];
            for plan in [small, usual, large].into_iter().chain(others) {
                let sum: u64 = plan.shares().iter().map(|(_, share)| share).sum();
                assert!(sum <= bytes as u64, "{bytes}: {sum} planned");
                assert!(sum + 64 > bytes as u64, "{bytes}: only {sum} planned");
            }
            assert!(usual.volumes.pages > bytes as u64 / 4, "{bytes}: {usual:?}");
        }
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
        assert_eq!((mib("mounts"), mib("requests")), (16.0, 16.0));
        assert_eq!((mib("journal"), mib("pieces")), (9.0, 14.875));
        assert!((102.0..103.0).contains(&mib("pages")), "{}", mib("pages"));
    }
}
