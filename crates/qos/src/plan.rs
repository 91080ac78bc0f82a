//! User-defined settings of the scheduler, for every kind of device.
//!
//! The `device` crate holds the plan and knows the device. The program builds a plan from the
//! user's settings.
//! Invariant: a checked plan yields checked settings for each kind of device.

use crate::edge::LatencyTargets;
use crate::flow::ByFlow;
use crate::kind::DeviceKind;
use crate::settings::{InvalidShares, SchedulerSettings};

// A maintenance step at the device may wait for a region that a user is reading (single-flight).
// The user's read must find room at the device even then, or both would wait for ever.
const _: () = {
    assert!(
        SchedulerSettings::DISK.maintenance_in_flight_max < SchedulerSettings::DISK.in_flight_max
    );
    assert!(
        SchedulerSettings::SSD.maintenance_in_flight_max < SchedulerSettings::SSD.in_flight_max
    );
};

/// User-defined settings. See the module's head.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    /// Kind of the device; `None`: guess it from latencies.
    pub device: Option<DeviceKind>,
    /// As in [`SchedulerSettings`].
    pub non_sequential_percent: u8,
    /// As in [`SchedulerSettings`].
    pub weights: ByFlow<u16>,
    /// As in [`SchedulerSettings`].
    pub floors_permille: ByFlow<u16>,
    /// As in [`SchedulerSettings`].
    pub floors_percent_max: u8,
    /// Target latencies.
    pub targets: LatencyTargets,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            device: None,
            non_sequential_percent: SchedulerSettings::DISK.non_sequential_percent,
            weights: SchedulerSettings::DISK.weights,
            floors_permille: SchedulerSettings::DISK.floors_permille,
            floors_percent_max: SchedulerSettings::DISK.floors_percent_max,
            targets: LatencyTargets::default(),
        }
    }
}

impl Plan {
    /// Returns the settings for a kind of device.
    pub fn settings(&self, kind: DeviceKind) -> SchedulerSettings {
        SchedulerSettings {
            non_sequential_percent: self.non_sequential_percent,
            weights: self.weights,
            floors_permille: self.floors_permille,
            floors_percent_max: self.floors_percent_max,
            ..match kind {
                DeviceKind::Disk => SchedulerSettings::DISK,
                DeviceKind::Ssd => SchedulerSettings::SSD,
            }
        }
    }

    /// Refuses settings that leave nothing to some flow.
    pub fn check(&self) -> Result<(), InvalidShares> {
        let [disk, ssd] = [DeviceKind::Disk, DeviceKind::Ssd].map(|kind| self.settings(kind));
        disk.check().and_then(|()| ssd.check())
    }
}
