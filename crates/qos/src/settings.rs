//! What can be set, at the start and while running.
//!
//! Invariant: settings that were checked leave something to everybody. Called by whoever reads the
//! user's wishes.

use crate::flow::{ByFlow, Flow};
use crate::grace::GraceLimits;

/// What a request costs, in time of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceCosts {
    /// For a request that is not sequential, beside its bytes: there and back.
    pub seek_ns: u64,
    /// For each KiB.
    pub kib_ns: u64,
}

impl DeviceCosts {
    /// A disk: 8 ms, 200 MB/s.
    pub const DISK: Self = Self {
        seek_ns: 8_000_000,
        kib_ns: 5_120,
    };
    /// A solid-state drive: 20 us, 2 GB/s.
    pub const SSD: Self = Self {
        seek_ns: 20_000,
        kib_ns: 512,
    };

    /// Time of the device for a request, at least 1 ns.
    pub fn of(&self, is_sequential: bool, bytes: u64) -> u64 {
        let seek = if is_sequential { 0 } else { self.seek_ns };
        let bytes_ns = u128::from(bytes) * u128::from(self.kib_ns) / 1024;
        let bytes_ns = u64::try_from(bytes_ns).unwrap_or(u64::MAX);
        seek.saturating_add(bytes_ns).max(1)
    }
}

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Of a busy device, what non-sequential requests of clients get, percent: 1 to 99.
    pub non_sequential_percent: u8,
    /// How the other users share the rest, and how maintenance shares idle time: 1 or more. That
    /// of [`Flow::ForegroundNonSequential`] means nothing.
    pub weights: ByFlow<u16>,
    /// Of a busy device, what each maintenance task gets, a thousandth each: 0 to 200. Those of users
    /// mean nothing.
    pub floors_permille: ByFlow<u16>,
    /// Of a busy device, what all maintenance gets together when deadlines are near, percent: 1 to 90.
    pub floors_percent_max: u8,
    /// The device is idle when no user has asked for anything for so long; the wait is learned within these.
    pub grace: GraceLimits,
    /// Requests at the device at once.
    pub in_flight_max: usize,
    /// Of them, maintenance while the device is idle: whoever comes then waits for them. While it is
    /// not idle, one.
    pub maintenance_in_flight_max: usize,
    /// Requests that wait, of each flow.
    pub waiting_max: usize,
    /// What requests cost.
    pub costs: DeviceCosts,
}

impl Settings {
    /// For a disk or disks.
    pub const DISK: Self = Self {
        non_sequential_percent: 20,
        weights: [1, 4, 2, 2, 4, 3, 2, 1],
        floors_permille: [0, 0, 0, 0, 10, 20, 20, 10],
        floors_percent_max: 50,
        grace: GraceLimits {
            least_ns: 4_000_000,
            most_ns: 100_000_000,
        },
        in_flight_max: 8,
        maintenance_in_flight_max: 1,
        waiting_max: 4096,
        costs: DeviceCosts::DISK,
    };
    /// For solid-state drives.
    pub const SSD: Self = Self {
        grace: GraceLimits {
            least_ns: 250_000,
            most_ns: 10_000_000,
        },
        in_flight_max: 32,
        maintenance_in_flight_max: 8,
        costs: DeviceCosts::SSD,
        ..Self::DISK
    };

    /// Refuses what would leave nothing to somebody.
    pub fn check(&self) -> Result<(), InvalidShares> {
        let refuse = |what| Err(InvalidShares { what });
        if !(1..=99).contains(&self.non_sequential_percent) {
            return refuse("share of non-sequential requests: 1 to 99 percent");
        }
        if self.weights.contains(&0) {
            return refuse("weight of a flow: 1 or more");
        }
        if self.floors_permille.iter().any(|floor| *floor > 200) {
            return refuse("floor of a maintenance task: 0 to 200 thousandths");
        }
        if !(1..=90).contains(&self.floors_percent_max) {
            return refuse("maintenance with deadlines: 1 to 90 percent");
        }
        let numbers = [
            self.in_flight_max,
            self.maintenance_in_flight_max,
            self.waiting_max,
        ];
        if numbers.contains(&0) {
            return refuse("requests at once and waiting: 1 or more");
        }
        Ok(())
    }

    /// What is set for a maintenance task on a busy device, millionths.
    pub(crate) fn floor(&self, flow: Flow) -> u64 {
        let permille = self.floors_permille.get(flow as usize);
        u64::from(permille.copied().unwrap_or_default()) * 1000
    }

    pub(crate) fn weight(&self, flow: Flow) -> u64 {
        let weight = self.weights.get(flow as usize);
        u64::from(weight.copied().unwrap_or(1).max(1))
    }
}

/// A setting is out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidShares {
    /// Which, and what it may be.
    pub what: &'static str,
}

impl std::fmt::Display for InvalidShares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.what)
    }
}

impl std::error::Error for InvalidShares {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_starve_somebody_are_refused() {
        assert_eq!(Settings::DISK.check(), Ok(()));
        assert_eq!(Settings::SSD.check(), Ok(()));
        let changes: [fn(&mut Settings); 6] = [
            |s| s.non_sequential_percent = 100,
            |s| s.non_sequential_percent = 0,
            |s| s.weights[3] = 0,
            |s| s.floors_permille[5] = 201,
            |s| s.floors_percent_max = 91,
            |s| s.in_flight_max = 0,
        ];
        for change in changes {
            let mut settings = Settings::DISK;
            change(&mut settings);
            assert!(settings.check().is_err(), "{settings:?}");
        }
    }

    #[test]
    fn a_seek_costs_what_it_does() {
        let costs = DeviceCosts::DISK;
        assert_eq!(costs.of(true, 1 << 20), 1024 * 5120);
        assert_eq!(costs.of(false, 4096), 8_000_000 + 4 * 5120);
        assert_eq!(costs.of(true, 0), 1);
        assert!(costs.of(false, u64::MAX) > 1 << 60);
    }
}
