//! What a device is, by how it behaves: virtual disks say nothing true of themselves.
//!
//! Invariant: a guess that follows the last few dozen reads, with a gap between its two limits, so that
//! it does not swing. Called by the engine for reads that are short and not sequential.

/// Kinds of devices that are treated differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeviceKind {
    /// It seeks, or its requests are counted.
    Disk,
    /// It does not.
    #[default]
    Ssd,
}

/// Of a mean, the weight of one new sample is one of so many.
const SAMPLES: f64 = 32.0;
/// A device that takes longer for each request is a disk, nanoseconds.
const DISK_NS: f64 = 2e6;
/// One that takes less is none.
const SSD_NS: f64 = 0.5e6;

/// See the module's head.
#[derive(Clone, Copy, Debug, Default)]
pub struct KindJudge {
    /// Time of the device for each request.
    mean_ns: f64,
    kind: DeviceKind,
}

impl KindJudge {
    /// A read took so long at the device, where so many requests were at once, itself included.
    pub fn saw(&mut self, latency_ns: u64, at_device: usize) {
        let each_ns = latency_ns as f64 / at_device.max(1) as f64;
        self.mean_ns += (each_ns - self.mean_ns) / SAMPLES;
        if self.mean_ns > DISK_NS {
            self.kind = DeviceKind::Disk;
        } else if self.mean_ns < SSD_NS {
            self.kind = DeviceKind::Ssd;
        }
    }

    /// What it is.
    pub fn kind(&self) -> DeviceKind {
        self.kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_disk_is_known_by_its_seeks_however_many_wait() {
        let mut judge = KindJudge::default();
        (0..100).for_each(|_| judge.saw(MS / 10, 1));
        judge.saw(50 * MS, 1);
        assert_eq!(judge.kind(), DeviceKind::Ssd, "one that was late");
        (0..20).for_each(|_| judge.saw(9 * MS, 1));
        assert_eq!(judge.kind(), DeviceKind::Disk);
        // Copies in memory answer half of them.
        (0..100).for_each(|n| judge.saw((n % 2) * 80 * MS, 8));
        assert_eq!(judge.kind(), DeviceKind::Disk);
        (0..400).for_each(|_| judge.saw(2 * MS, 32));
        assert_eq!(
            judge.kind(),
            DeviceKind::Ssd,
            "deep queues are not slow devices"
        );
    }
}
