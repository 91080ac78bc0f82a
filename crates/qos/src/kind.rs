//! Guesses the kind of a device from its latencies: virtual disks report wrong kinds.
//!
//! The `device` crate calls this for short reads that are not sequential.
//! Invariant: the guess follows the last few dozen reads. Two limits with a gap between them keep
//! it from oscillating.

/// Kinds of devices that are scheduled differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeviceKind {
    /// A device that seeks, or limits requests per second.
    Disk,
    /// A device without seeks.
    #[default]
    Ssd,
}

/// A new sample has a weight of 1/`SAMPLES` in a mean.
const SAMPLES: f64 = 32.0;
/// Mean device time per request above which a device is a disk, nanoseconds.
const DISK_NS: f64 = 2e6;
/// Mean below which it is a solid-state drive, nanoseconds.
const SSD_NS: f64 = 0.5e6;

/// Guesses the kind of a device. See the module's head.
#[derive(Clone, Copy, Debug, Default)]
pub struct KindDetector {
    /// Mean device time per request.
    mean_ns: f64,
    kind: DeviceKind,
}

impl KindDetector {
    /// Counts a read that took `latency_ns` while `at_device` requests, itself included, were at
    /// the device.
    pub fn saw(&mut self, latency_ns: u64, at_device: usize) {
        let each_ns = latency_ns as f64 / at_device.max(1) as f64;
        self.mean_ns += (each_ns - self.mean_ns) / SAMPLES;
        if self.mean_ns > DISK_NS {
            self.kind = DeviceKind::Disk;
        } else if self.mean_ns < SSD_NS {
            self.kind = DeviceKind::Ssd;
        }
    }

    /// Returns the current guess.
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
        let mut judge = KindDetector::default();
        (0..100).for_each(|_| judge.saw(MS / 10, 1));
        judge.saw(50 * MS, 1);
        assert_eq!(judge.kind(), DeviceKind::Ssd, "one that was late");
        (0..20).for_each(|_| judge.saw(9 * MS, 1));
        assert_eq!(judge.kind(), DeviceKind::Disk);
        // The page cache answers half of them.
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
