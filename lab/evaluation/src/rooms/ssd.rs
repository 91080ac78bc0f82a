//! A flash device with several channels, in virtual time.
//!
//! The world calls this.
//! Invariant: pure arithmetic. A request waits for a free channel, then for the bus; requests begin
//! in the order in which they come.

use crate::disk::{Ns, SECOND};

/// Properties of a flash device.
#[derive(Clone, Copy, Debug)]
pub struct SsdModel {
    /// Number of requests that it serves at the same time.
    pub channels: usize,
    /// Time of a read before its first byte.
    pub read: Ns,
    /// Time of a write before its first byte.
    pub write: Ns,
    /// Transfer rate of reads, bytes per second.
    pub read_rate: u64,
    /// Transfer rate of writes, bytes per second.
    pub write_rate: u64,
}

impl SsdModel {
    /// An SSD for servers of 2008 (the data sheet of the Intel X25-E: 75 and 85 us, 250 and 170
    /// MB/s).
    pub const OF_2008: Self = Self {
        channels: 10,
        read: 75_000,
        write: 85_000,
        read_rate: 250_000_000,
        write_rate: 170_000_000,
    };
}

/// A flash device at work.
#[derive(Clone, Debug)]
pub struct Ssd {
    model: SsdModel,
    /// When each channel is free.
    channels: Vec<Ns>,
    bus: Ns,
}

impl Ssd {
    /// Creates an idle device.
    pub fn new(model: SsdModel) -> Self {
        Self {
            model,
            channels: vec![0; model.channels.max(1)],
            bus: 0,
        }
    }

    /// Returns when a request ends that comes now.
    pub fn serve(&mut self, now: Ns, bytes: u64, is_write: bool) -> Ns {
        let model = self.model;
        let (latency, rate) = match is_write {
            true => (model.write, model.write_rate),
            false => (model.read, model.read_rate),
        };
        let transfer = (u128::from(bytes) * u128::from(SECOND) / u128::from(rate.max(1))) as Ns;
        let Some(channel) = self.channels.iter_mut().min() else {
            return now;
        };
        let ready = now.max(*channel) + latency;
        let end = ready.max(self.bus) + transfer;
        // The bus is held for the transfer only.
        self.bus = end;
        *channel = end;
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_hide_latency_and_the_bus_limits_the_rate() {
        let mut ssd = Ssd::new(SsdModel::OF_2008);
        let one = ssd.serve(0, 4096, false);
        let end = (0..10_000).map(|_| ssd.serve(0, 4096, false)).max();
        let each = (end.unwrap_or(0) - one) / 10_000;
        assert!(each < one / 4, "{each}, {one}");
        assert!(each >= 4096 * SECOND / 250_000_000);
        let mut ssd = Ssd::new(SsdModel::OF_2008);
        let end = ssd.serve(0, 170 << 20, true);
        assert!(end.abs_diff(SECOND * 105 / 100) < SECOND / 50, "{end}");
    }
}
