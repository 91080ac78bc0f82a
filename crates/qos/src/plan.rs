//! What may be wished while the engine runs, whatever the device is.
//!
//! Invariant: a plan that was checked gives settings that were checked, for each kind of device. Called by
//! the engine, which knows the device, and by whoever reads the user's wishes.

use crate::edge::LatencyTargets;
use crate::flow::ByFlow;
use crate::kind::DeviceKind;
use crate::settings::{InvalidShares, Settings};

// A step of maintenance may wait for what a user is reading: one of them finds room always.
const _: () = {
    assert!(Settings::DISK.maintenance_in_flight_max < Settings::DISK.in_flight_max);
    assert!(Settings::SSD.maintenance_in_flight_max < Settings::SSD.in_flight_max);
};

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    /// What the device is; `None`: as it behaves.
    pub device: Option<DeviceKind>,
    /// As in [`Settings`].
    pub non_sequential_percent: u8,
    /// As in [`Settings`].
    pub weights: ByFlow<u16>,
    /// As in [`Settings`].
    pub floors_permille: ByFlow<u16>,
    /// As in [`Settings`].
    pub floors_percent_max: u8,
    /// What the edge promises.
    pub targets: LatencyTargets,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            device: None,
            non_sequential_percent: Settings::DISK.non_sequential_percent,
            weights: Settings::DISK.weights,
            floors_permille: Settings::DISK.floors_permille,
            floors_percent_max: Settings::DISK.floors_percent_max,
            targets: LatencyTargets::default(),
        }
    }
}

impl Plan {
    /// For a device.
    pub fn settings(&self, kind: DeviceKind) -> Settings {
        Settings {
            non_sequential_percent: self.non_sequential_percent,
            weights: self.weights,
            floors_permille: self.floors_permille,
            floors_percent_max: self.floors_percent_max,
            ..match kind {
                DeviceKind::Disk => Settings::DISK,
                DeviceKind::Ssd => Settings::SSD,
            }
        }
    }

    /// Refuses what would leave nothing to somebody.
    pub fn check(&self) -> Result<(), InvalidShares> {
        let [disk, ssd] = [DeviceKind::Disk, DeviceKind::Ssd].map(|kind| self.settings(kind));
        disk.check().and_then(|()| ssd.check())
    }
}
