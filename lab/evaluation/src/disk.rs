//! A disk in virtual time: seek, rotation, transfer, and the drive's own read-ahead.
//!
//! The worlds of this crate call this.
//! Invariant: pure arithmetic over the caller's time, so the same requests take the same time on
//! every machine: of floating point, only operations that IEEE 754 rounds exactly. The disk serves
//! one request at a time; the caller decides the order.

/// Nanoseconds since the start of the run.
pub type Ns = u64;

/// One second.
pub const SECOND: Ns = 1_000_000_000;
/// One millisecond.
pub const MILLISECOND: Ns = 1_000_000;

/// Properties of a disk. A seek over a share `d` of the disk takes `seek_settle + seek_curve *
/// sqrt(d)`.
#[derive(Clone, Copy, Debug)]
pub struct DiskModel {
    /// Size, bytes.
    pub capacity: u64,
    /// Time of one rotation.
    pub rotation: Ns,
    /// Minimum time of a seek.
    pub seek_settle: Ns,
    /// Additional time of a seek over the whole disk.
    pub seek_curve: Ns,
    /// Transfer rate at the outer edge, where addresses begin, bytes per second. The inner edge has
    /// half of it.
    pub outer_rate: u64,
    /// Time of a request before the arm moves.
    pub command: Ns,
    /// Transfer rate from the drive's memory, bytes per second.
    pub bus_rate: u64,
    /// Bytes that the drive reads ahead.
    pub segment: u64,
}

impl DiskModel {
    /// A 300 GB disk with 10,000 rotations per minute, common in servers of 2012 (mean seek 3.8
    /// ms).
    pub const SERVER: Self = Self {
        capacity: 300_000_000_000,
        rotation: 6 * MILLISECOND,
        seek_settle: 600_000,
        seek_curve: 5_600_000,
        outer_rate: 125_000_000,
        command: 100_000,
        bus_rate: 300_000_000,
        segment: 1 << 20,
    };

    /// A SATA disk of 2008 with 7,200 rotations per minute (mean seek 8.5 ms).
    pub const SATA: Self = Self {
        capacity: 500_000_000_000,
        rotation: 8_333_333,
        seek_settle: 1_000_000,
        seek_curve: 14_000_000,
        outer_rate: 100_000_000,
        command: 100_000,
        bus_rate: 300_000_000,
        segment: 1 << 20,
    };

    /// A drive without arms whose requests cost a time of their own, 100 times slower than the SSD
    /// of FragPicker (SOSP'21: 128 KiB in 32 pieces at 724 MB/s, in one at 1728), so that the
    /// machine's own time for a request does not count: a request of `b` bytes takes 340 us + `b` /
    /// 18.1 MB/s. One request at a time.
    pub const FLASH_SLOWED: Self = Self {
        // All of it is the first zone.
        capacity: u64::MAX / 2,
        rotation: 1,
        seek_settle: 0,
        seek_curve: 0,
        outer_rate: 18_100_000,
        command: 340_000,
        bus_rate: 18_100_000,
        segment: 0,
    };

    /// Number of zones; each has one density.
    const ZONES: u64 = 16;

    fn zone(&self, address: u64) -> u64 {
        let zone_bytes = (self.capacity / Self::ZONES).max(1);
        (address / zone_bytes).min(Self::ZONES - 1)
    }

    /// Returns the transfer rate at an address, bytes per second.
    pub fn rate(&self, address: u64) -> u64 {
        let lost = self.outer_rate / 2 * self.zone(address) / Self::ZONES;
        (self.outer_rate - lost).max(1)
    }

    /// Returns the time that bytes take under the head.
    fn media(&self, address: u64, bytes: u64) -> Ns {
        scaled(bytes, SECOND, self.rate(address))
    }

    /// Returns the angle of an address, as time since the start of a rotation.
    fn angle(&self, address: u64) -> Ns {
        let zone_start = self.zone(address) * (self.capacity / Self::ZONES);
        let track_bytes = scaled(self.rate(address), self.rotation, SECOND).max(1);
        let in_track = address.saturating_sub(zone_start) % track_bytes;
        scaled(in_track, self.rotation, track_bytes) % self.rotation
    }

    /// Returns the time of the arm between two addresses.
    pub fn seek(&self, from: u64, to: u64) -> Ns {
        let distance = from.abs_diff(to);
        // Within a cylinder only the head changes, which the skew between tracks hides.
        if distance < 4 << 20 {
            return self.seek_settle / 2;
        }
        let share = distance as f64 / self.capacity as f64;
        self.seek_settle + (self.seek_curve as f64 * share.sqrt()) as Ns
    }
}

/// Returns `value * times / by` without overflow.
fn scaled(value: u64, times: u64, by: u64) -> u64 {
    (u128::from(value) * u128::from(times) / u128::from(by.max(1))) as u64
}

/// A request to a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskRequest {
    /// First byte.
    pub address: u64,
    /// Size, bytes.
    pub bytes: u64,
    /// True for a write.
    pub is_write: bool,
}

/// Unit in which a machine reads and keeps what it has read, bytes.
pub const BLOCK_BYTES: u64 = 4096;

/// A disk with the position of its head.
#[derive(Clone, Debug)]
pub struct Disk {
    model: DiskModel,
    /// Where and when the last request ended.
    head: u64,
    idle_since: Ns,
    was_read: bool,
}

impl Disk {
    /// Creates an idle disk.
    pub fn new(model: DiskModel) -> Self {
        Self {
            model,
            head: 0,
            idle_since: 0,
            was_read: false,
        }
    }

    /// Returns when the last request ended.
    pub fn idle_since(&self) -> Ns {
        self.idle_since
    }

    /// Returns when a request ends that begins at `now`. `now` must not precede the end of the last
    /// request. A read that begins in the block in which the last one ended does not read that
    /// again: the machine keeps it.
    pub fn serve(&mut self, now: Ns, mut request: DiskRequest) -> Ns {
        let again = self.head.saturating_sub(request.address);
        if self.was_read && !request.is_write && again < BLOCK_BYTES {
            request.address += again;
            request.bytes = request.bytes.saturating_sub(again);
        }
        let begun = now + self.model.command;
        let end = match self.read_ahead(begun, &request) {
            Some(end) => end,
            None => self.position(begun, &request),
        };
        self.head = request.address + request.bytes;
        self.idle_since = end;
        self.was_read = !request.is_write;
        end
    }

    /// Returns when a read ends that continues near the last one: from the drive's memory, or as
    /// the head passes.
    fn read_ahead(&self, begun: Ns, request: &DiskRequest) -> Option<Ns> {
        let model = &self.model;
        if !self.was_read || request.is_write || request.address < self.head {
            return None;
        }
        let passed = scaled(begun - self.idle_since, model.rate(self.head), SECOND);
        let covered = self.head + passed.min(model.segment);
        if request.address > covered {
            return None;
        }
        let bus = begun + scaled(request.bytes, SECOND, model.bus_rate);
        let needed = request.address + request.bytes;
        if needed <= covered {
            Some(bus)
        } else if passed <= model.segment {
            let media = self.idle_since + model.media(self.head, needed - self.head);
            Some(bus.max(media))
        } else {
            // The drive stopped at the end of its memory: the rest needs another rotation.
            let rest = model.media(covered, needed - covered);
            Some(bus.max(begun + self.latency(begun, covered) + rest))
        }
    }

    fn position(&self, begun: Ns, request: &DiskRequest) -> Ns {
        let model = &self.model;
        let is_next = request.address == self.head && begun == self.idle_since + model.command;
        let media = model.media(request.address, request.bytes);
        if is_next && request.is_write && !self.was_read {
            // Queued writes stream.
            return begun + media;
        }
        let there = begun + model.seek(self.head, request.address);
        there + self.latency(there, request.address) + media
    }

    fn latency(&self, at: Ns, address: u64) -> Ns {
        let turn = self.model.rotation;
        (self.model.angle(address) + turn - at % turn) % turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn read(address: u64, bytes: u64) -> DiskRequest {
        DiskRequest {
            address,
            bytes,
            is_write: false,
        }
    }

    #[test]
    fn sequential_reads_stream_also_with_pauses() {
        for pause in [0, MILLISECOND / 2, 3 * MILLISECOND] {
            let mut disk = Disk::new(DiskModel::SERVER);
            let (mut now, mut at) = (0, 0);
            while at < 64 * MIB {
                now = disk.serve(now, read(at, MIB / 4)) + pause;
                at += MIB / 4;
            }
            let rate = at as f64 / (now as f64 / 1e9) / 1e6;
            // Read-ahead hides pauses that are shorter than the time of a segment.
            let least = if pause > MILLISECOND { 60.0 } else { 105.0 };
            assert!((least..=125.0).contains(&rate), "{pause}: {rate} MB/s");
        }
    }

    #[test]
    fn random_reads_take_a_seek_and_half_a_turn() {
        let mut disk = Disk::new(DiskModel::SERVER);
        let mut seed = sim::Seed::new(1);
        let mut now = 0;
        for _ in 0..10_000 {
            now = disk.serve(now, read(seed.below(300_000_000_000), 4096));
        }
        let mean_ms = now as f64 / 1e6 / 1e4;
        // 0.1 + 3.6 (the mean root of the distance is 8/15) + 3.0.
        assert!((6.4..7.2).contains(&mean_ms), "{mean_ms}");
    }

    #[test]
    fn near_is_faster_than_far_and_outside_than_inside() {
        let model = DiskModel::SERVER;
        assert!(model.seek(0, 1 << 30) < model.seek(0, 10 << 30));
        assert!(model.seek(0, 10 << 30) < model.seek(0, 200 << 30));
        assert!(model.rate(0) > model.rate(200 << 30));
        assert_eq!(model.media(0, 125_000_000), SECOND);
    }
}
