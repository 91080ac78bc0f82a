//! Lists the targets of a server and who may use them. The program implements [`Targets`] over its
//! pools; tests and small servers use [`FixedTargets`].
//!
//! Invariant: names are iSCSI names of at most [`NAME_BYTES_MAX`] bytes, in lower case: those that
//! initiators send are made so first ([`normal_name`]). Secrets are never printed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use volume::Volume;

/// Maximum length of an iSCSI name, bytes (RFC 7143, 4.2.7.1).
pub const NAME_BYTES_MAX: usize = 223;
/// Number of logical units that a target can have.
pub const UNITS_MAX: usize = 256;
/// Minimum length of a secret, bytes (RFC 7143, 9.2.1: 96 bits).
pub const SECRET_BYTES_MIN: usize = 12;

/// Returns the form of an iSCSI name that is compared: it is the same name in whatever case it is
/// written (RFC 7143, 4.2.7.1).
pub fn normal_name(name: &str) -> String {
    name.to_lowercase()
}

/// A user and a secret of CHAP.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the user, as in CHAP_N.
    pub user: String,
    /// The secret, as bytes.
    pub secret: Vec<u8>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials of {:?}", self.user)
    }
}

/// Conditions for the use of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetAccess {
    /// Names of the initiators that may log in; all may if absent.
    pub initiators: Option<Vec<String>>,
    /// How initiators prove who they are; they need not if absent.
    pub chap: Option<Credentials>,
    /// How this target proves who it is to initiators that ask. Its secret must differ from that of
    /// `chap`, otherwise an initiator's own answer would serve as proof.
    pub mutual: Option<Credentials>,
}

impl TargetAccess {
    /// Returns true if the initiator may log in, after it has proved who it is.
    pub fn admits(&self, initiator: &str) -> bool {
        let is_named = |names: &Vec<String>| names.iter().any(|n| normal_name(n) == initiator);
        self.initiators.as_ref().is_none_or(is_named)
    }

    /// Returns true if the target may be reached from other machines.
    pub fn is_protected(&self) -> bool {
        self.chap.is_some() && self.initiators.is_some()
    }

    /// Returns false if a secret is too short, or the same in both directions.
    pub fn is_sound(&self) -> bool {
        let all = [&self.chap, &self.mutual];
        let is_long = |c: &Credentials| c.secret.len() >= SECRET_BYTES_MIN;
        let secret = |c: &Option<Credentials>| c.as_ref().map(|c| c.secret.clone());
        let same = self.mutual.is_some() && secret(&self.chap) == secret(&self.mutual);
        !same && all.into_iter().flatten().all(is_long)
    }
}

/// A logical unit of a target.
#[derive(Clone)]
pub struct TargetUnit {
    /// Number of the unit. A target should have unit 0.
    pub number: u8,
    /// Its contents.
    pub volume: Arc<dyn Volume>,
    /// Bytes that no other disk has, anywhere and ever. Its serial number follows from them, and
    /// initiators take disks with the same serial number for one. The same while it is the same
    /// disk, whatever it contains; others for a copy, and for a new disk of the same name. If
    /// absent, the disk is named after its target and its number.
    pub identity: Option<Arc<[u8]>>,
}

/// The targets that initiators can choose from. All connection threads may call this at once.
pub trait Targets: Send + Sync {
    /// Returns the names of all targets, in display order, each with the conditions for its use.
    fn list(&self) -> Vec<(String, TargetAccess)>;

    /// Returns the conditions for the use of a target, or `None` if there is no such target.
    fn access(&self, name: &str) -> Option<TargetAccess>;

    /// Returns the logical units of a target, at most [`UNITS_MAX`], or `None` if there is no such
    /// target.
    ///
    /// Several sessions may open the same target. All opens must see each other's writes, and a
    /// flush through one must cover the acknowledged writes of all.
    fn open(&self, name: &str) -> Option<Vec<TargetUnit>>;

    /// Returns true if a target that [`Targets::open`] refused can soon be opened again.
    fn is_changing(&self, _name: &str) -> bool {
        false
    }

    /// Reports a denied login. The server limits how often it calls this.
    fn denied(&self, _denied: &Denied<'_>) {}
}

/// A denied login, for the log. The names are what the initiator sent: unchecked, of at most
/// [`NAME_BYTES_MAX`] bytes, and perhaps unsafe to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied<'a> {
    /// Address and port of the initiator.
    pub address: &'a str,
    /// Name of the initiator; absent if it sent no valid one.
    pub initiator: Option<&'a str>,
    /// Name of the target; absent for discovery, or without a valid one.
    pub target: Option<&'a str>,
    /// The reason, in words.
    pub reason: &'a str,
    /// Number of denied logins before this one that were not reported.
    pub unreported: u64,
}

/// A fixed set of targets.
#[derive(Clone, Default)]
pub struct FixedTargets(BTreeMap<String, (TargetAccess, Vec<TargetUnit>)>);

impl FixedTargets {
    /// Offers `volume` as unit 0 of the target `name`.
    pub fn with(self, name: &str, volume: Arc<dyn Volume>, access: TargetAccess) -> Self {
        self.with_units(name, vec![volume], access)
    }

    /// Offers `volumes` as units 0, 1 and so on of the target `name`.
    pub fn with_units(
        mut self,
        name: &str,
        volumes: Vec<Arc<dyn Volume>>,
        access: TargetAccess,
    ) -> Self {
        let units = (0..=u8::MAX).zip(volumes);
        let units = units.map(|(number, volume)| TargetUnit {
            number,
            volume,
            identity: None,
        });
        self.0.insert(normal_name(name), (access, units.collect()));
        self
    }
}

impl Targets for FixedTargets {
    fn list(&self) -> Vec<(String, TargetAccess)> {
        let all = self.0.iter();
        all.map(|(name, (access, _))| (name.clone(), access.clone()))
            .collect()
    }

    fn access(&self, name: &str) -> Option<TargetAccess> {
        self.0.get(name).map(|(access, _)| access.clone())
    }

    fn open(&self, name: &str) -> Option<Vec<TargetUnit>> {
        self.0.get(name).map(|(_, units)| units.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(secret: &str) -> Option<Credentials> {
        Some(Credentials {
            user: "user".to_owned(),
            secret: secret.into(),
        })
    }

    #[test]
    fn short_and_reflected_secrets_are_not_sound() {
        let sound = |chap, mutual| {
            let access = TargetAccess {
                initiators: None,
                chap: credentials(chap),
                mutual: credentials(mutual),
            };
            access.is_sound()
        };
        assert!(sound("a secret of us", "another secret"));
        assert!(!sound("a secret of us", "a secret of us"));
        assert!(!sound("short", "another secret"));
        assert!(!sound("a secret of us", "short"));
        assert!(TargetAccess::default().is_sound() && !TargetAccess::default().is_protected());
    }

    #[test]
    fn initiators_are_named_in_any_case_and_secrets_are_not_shown() {
        let access = TargetAccess {
            initiators: Some(vec!["iqn.2026-11.org.example:A".to_owned()]),
            chap: credentials("not to be shown"),
            mutual: None,
        };
        assert!(access.admits("iqn.2026-11.org.example:a"));
        assert!(!access.admits("iqn.2026-11.org.example:ab"));
        assert!(!format!("{access:?}").contains("shown"));
    }
}
