//! Settings of a scheduler. They can change while it runs.
//!
//! [`crate::Plan`] builds and checks them.
//! Invariant: checked settings leave device time to every flow.

use crate::flow::{ByFlow, Flow};
use crate::grace::GraceLimits;

/// Cost of a request, in device time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceCosts {
    /// A non-sequential request: moving the head there and back, without the bytes.
    pub seek_ns: u64,
    /// Each KiB.
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

    /// Returns the device time of a request, at least 1 ns.
    pub fn of(&self, is_sequential: bool, bytes: u64) -> u64 {
        let seek = if is_sequential { 0 } else { self.seek_ns };
        let bytes_ns = u128::from(bytes) * u128::from(self.kib_ns) / 1024;
        let bytes_ns = u64::try_from(bytes_ns).unwrap_or(u64::MAX);
        seek.saturating_add(bytes_ns).max(1)
    }
}

/// Settings of a scheduler. See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchedulerSettings {
    /// Share of a busy device for non-sequential client requests, percent: 1 to 99.
    pub non_sequential_percent: u8,
    /// Weights by which the other users divide the rest and maintenance divides idle time: 1 or
    /// more. The weight of [`Flow::ForegroundNonSequential`] is ignored.
    pub weights: ByFlow<u16>,
    /// I/O floor of each maintenance task on a busy device, permille: 0 to 200. Values of users are
    /// ignored.
    pub floors_permille: ByFlow<u16>,
    /// Maximum share of a busy device for all maintenance when deadlines raise floors, percent: 1
    /// to 90.
    pub floors_percent_max: u8,
    /// The device is idle when no user request was there for a learned time. These are its limits.
    pub grace: GraceLimits,
    /// Maximum number of requests at the device.
    pub in_flight_max: usize,
    /// Maximum number of maintenance requests at an idle device: a user that arrives waits for
    /// them. A device in use takes one.
    pub maintenance_in_flight_max: usize,
    /// Maximum number of waiting requests of each flow.
    pub waiting_max: usize,
    /// Costs of requests.
    pub costs: DeviceCosts,
}

impl SchedulerSettings {
    /// Settings for disks.
    pub const DISK: Self = Self {
        non_sequential_percent: 20,
        // A scrub gets least: what other tasks read from the device verifies data for it.
        weights: [1, 8, 4, 4, 8, 6, 1, 2],
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
    /// Settings for solid-state drives.
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

    /// Refuses settings that leave nothing to some flow.
    pub fn check(&self) -> Result<(), InvalidShares> {
        let refuse = |what| Err(InvalidShares { what });
        if !(1..=99).contains(&self.non_sequential_percent) {
            return refuse("the share of random requests is 1 to 99 percent");
        }
        if self.weights.contains(&0) {
            return refuse("the weight of a flow is at least 1");
        }
        if self.floors_permille.iter().any(|floor| *floor > 200) {
            return refuse("the I/O floor of a maintenance task is at most 20 percent");
        }
        if !(1..=90).contains(&self.floors_percent_max) {
            return refuse("the I/O floor of tasks with deadlines is 1 to 90 percent");
        }
        let numbers = [
            self.in_flight_max,
            self.maintenance_in_flight_max,
            self.waiting_max,
        ];
        if numbers.contains(&0) {
            return refuse("the number of requests is at least 1");
        }
        Ok(())
    }

    /// Returns the configured I/O floor of a maintenance task, millionths.
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct InvalidShares {
    /// The setting and its range.
    pub what: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_starve_a_flow_are_refused() {
        assert_eq!(SchedulerSettings::DISK.check(), Ok(()));
        assert_eq!(SchedulerSettings::SSD.check(), Ok(()));
        let changes: [fn(&mut SchedulerSettings); 6] = [
            |s| s.non_sequential_percent = 100,
            |s| s.non_sequential_percent = 0,
            |s| s.weights[3] = 0,
            |s| s.floors_permille[5] = 201,
            |s| s.floors_percent_max = 91,
            |s| s.in_flight_max = 0,
        ];
        for change in changes {
            let mut settings = SchedulerSettings::DISK;
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
