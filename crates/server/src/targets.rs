//! The targets that iSCSI initiators of a server can log in to: one for each NBD export, with the
//! export as its only logical unit. The iSCSI server calls this.
//!
//! Invariant: every export has one target name, and no two exports share one. Only
//! [`RulesInForce`] decide which initiators may use a target.

use crate::program::Program;
use iscsi::{Denied, NAME_BYTES_MAX, ReservationKeeper, TargetAccess, TargetUnit, Targets};
use iscsi_access::RulesInForce;
use nbd::{ExportEntry, Exports};
use std::sync::Arc;
use units::count;
use units::printable::printable;
use volume::Volume;

/// Start of all target names.
const PREFIX: &str = "iqn.2026-11.org.quintet:";
/// Start of names that cannot be part of an iSCSI name as they are.
const ENCODED: &str = "x-";

/// An open export.
pub struct ExportDisk {
    /// Its contents.
    pub volume: Arc<dyn Volume>,
    /// [`TargetUnit::identity`].
    pub identity: Arc<[u8]>,
    /// [`TargetUnit::reservations`].
    pub reservations: Option<Arc<dyn ReservationKeeper>>,
}

/// Exports that are disks with an identity.
pub trait Disks: Exports {
    /// Opens an export.
    fn open_disk(&self, name: &str) -> Option<ExportDisk>;

    /// Returns true if a command changes the export, so that it cannot be opened now.
    fn is_changing(&self, name: &str) -> bool;
}

/// The exports of a server as targets.
pub struct ServerTargets {
    exports: Arc<dyn Disks>,
    rules: Arc<RulesInForce>,
    /// Gets the denied logins.
    program: Arc<dyn Program>,
}

impl ServerTargets {
    /// Offers `exports` to initiators that `rules` admit. Denied logins are reported to
    /// `program`.
    pub fn new(
        exports: Arc<dyn Disks>,
        rules: Arc<RulesInForce>,
        program: Arc<dyn Program>,
    ) -> Self {
        Self {
            exports,
            rules,
            program,
        }
    }
}

/// Size of the blocks that initiators see, bytes.
pub const BLOCK_BYTES: u32 = 512;

/// Returns true if an export consists of whole blocks. Others are no targets: their end would be
/// missing.
pub fn has_whole_blocks(export: &ExportEntry) -> bool {
    export.size_bytes.is_multiple_of(u64::from(BLOCK_BYTES))
}

/// Returns true if the name of an export's target is short enough for iSCSI. Others are no targets.
pub fn has_target_name(export: &ExportEntry) -> bool {
    target_of(&export.name).len() <= NAME_BYTES_MAX
}

/// Returns the name of the target for an export.
///
/// iSCSI names consist of lower-case letters, digits, dots, hyphens and colons. `@` becomes a
/// colon; a name with other characters becomes its bytes in hexadecimal.
pub fn target_of(export: &str) -> String {
    let is_plain = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'@');
    if export.bytes().all(is_plain) && !export.starts_with(ENCODED) {
        return format!("{PREFIX}{}", export.replace('@', ":"));
    }
    let digits: String = export.bytes().map(|b| format!("{b:02x}")).collect();
    format!("{PREFIX}{ENCODED}{digits}")
}

/// Returns the export of a target.
fn export_of(target: &str) -> Option<String> {
    let name = target.strip_prefix(PREFIX)?;
    let export = match name.strip_prefix(ENCODED) {
        None => name.replace(':', "@"),
        Some(digits) => {
            let digit = |byte: &u8| char::from(*byte).to_digit(16);
            let pairs = digits.as_bytes().chunks(2);
            let byte = |pair: &[u8]| match pair {
                [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
                _ => None,
            };
            String::from_utf8(pairs.map(byte).collect::<Option<_>>()?).ok()?
        }
    };
    // The name that is shown, and no other spelling of it.
    (target_of(&export) == target).then_some(export)
}

impl Targets for ServerTargets {
    fn list(&self) -> Vec<(String, TargetAccess)> {
        let all = self.exports.list().into_iter();
        let exports = all.filter(|export| has_whole_blocks(export) && has_target_name(export));
        let rules = self.rules.now();
        let access = |export: &str| rules.of_export(export).clone();
        exports
            .map(|export| (target_of(&export.name), access(&export.name)))
            .collect()
    }

    fn access(&self, name: &str) -> Option<TargetAccess> {
        let export = export_of(name)?;
        let is_there = self.exports.list().iter().any(|e| e.name == export);
        is_there.then(|| self.rules.now().of_export(&export).clone())
    }

    fn discovery(&self) -> Option<TargetAccess> {
        Some(self.rules.now().discovery().clone())
    }

    fn open(&self, name: &str) -> Option<Vec<TargetUnit>> {
        let ExportDisk {
            volume,
            identity,
            reservations,
        } = self.exports.open_disk(&export_of(name)?)?;
        Some(vec![TargetUnit {
            number: 0,
            volume,
            identity: Some(identity),
            reservations,
        }])
    }

    fn is_changing(&self, name: &str) -> bool {
        export_of(name).is_some_and(|export| self.exports.is_changing(&export))
    }

    fn denied(&self, denied: &Denied<'_>) {
        let name = |name: Option<&str>, none: &str| match name {
            Some(name) => printable(name.as_bytes()),
            None => none.to_owned(),
        };
        let others = match denied.unreported {
            0 => String::new(),
            more => format!(
                " ({} before it were not logged)",
                count(more, "denied login")
            ),
        };
        self.program.warn(format_args!(
            "iSCSI login denied: initiator {} at {}, target {}: {}{others}",
            name(denied.initiator, "without a name"),
            denied.address,
            name(denied.target, "none (discovery)"),
            denied.reason
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iscsi::normal_name;

    #[test]
    fn every_export_has_one_target_name_and_no_other_has_it() {
        let plain = target_of("vm-1@before.update");
        assert_eq!(plain, "iqn.2026-11.org.quintet:vm-1:before.update");
        for export in [
            "vm-1@before.update",
            "Upper",
            "upper",
            "x-41",
            "A",
            "a:b",
            "ä",
            "a b@c",
            "a",
        ] {
            let target = target_of(export);
            assert_eq!(export_of(&target).as_deref(), Some(export), "{target}");
            // Logins compare names in lower case.
            assert_eq!(normal_name(&target), target);
        }
        for other in [
            "iqn.x:vm",
            "iqn.2026-11.org.quintet:x-4",
            "iqn.2026-11.org.quintet:x-61",
        ] {
            assert_eq!(export_of(other), None, "{other}");
        }
        assert_eq!(export_of("iqn.2026-11.org.quintet:Upper"), None);
    }
}
