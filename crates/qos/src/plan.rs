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
    /// Maximum number of requests at the device, 2 or more; `None`: as the kind has it, which is
    /// too few for an array of many disks.
    pub in_flight_max: Option<u16>,
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
            in_flight_max: None,
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
        let of_kind = match kind {
            DeviceKind::Disk => SchedulerSettings::DISK,
            DeviceKind::Ssd => SchedulerSettings::SSD,
        };
        let in_flight_max = self
            .in_flight_max
            .map_or(of_kind.in_flight_max, usize::from);
        let maintenance_max = of_kind.maintenance_in_flight_max;
        SchedulerSettings {
            non_sequential_percent: self.non_sequential_percent,
            weights: self.weights,
            floors_permille: self.floors_permille,
            floors_percent_max: self.floors_percent_max,
            in_flight_max,
            // One is left for a user; see above.
            maintenance_in_flight_max: maintenance_max.min(in_flight_max.saturating_sub(1)),
            ..of_kind
        }
    }

    /// Refuses settings that leave nothing to some flow.
    pub fn check(&self) -> Result<(), InvalidShares> {
        let [disk, ssd] = [DeviceKind::Disk, DeviceKind::Ssd].map(|kind| self.settings(kind));
        disk.check().and_then(|()| ssd.check())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_requests_is_the_users_and_leaves_one_to_users() {
        let of = |in_flight_max, kind| {
            let plan = Plan {
                in_flight_max,
                ..Plan::default()
            };
            let settings = plan.settings(kind);
            assert_eq!(plan.check().is_ok(), in_flight_max != Some(1));
            (settings.in_flight_max, settings.maintenance_in_flight_max)
        };
        assert_eq!(of(None, DeviceKind::Disk), (8, 1));
        assert_eq!(of(None, DeviceKind::Ssd), (32, 8));
        assert_eq!(of(Some(330), DeviceKind::Ssd), (330, 8));
        assert_eq!(of(Some(330), DeviceKind::Disk), (330, 1));
        assert_eq!(of(Some(4), DeviceKind::Ssd), (4, 3));
        assert_eq!(of(Some(2), DeviceKind::Disk), (2, 1));
        assert_eq!(of(Some(1), DeviceKind::Ssd), (1, 0));
    }
}
