//! Lists the targets of a server and who may use them. The program implements [`Targets`] over its
//! pools; tests and small servers use [`FixedTargets`].
//!
//! Invariant: names are iSCSI names of at most [`NAME_BYTES_MAX`] bytes, in lower case: those that
//! initiators send are made so first ([`normal_name`]). Secrets are never printed.

use format::reservations::ReservationsRecord;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use volume::{Volume, VolumeErrorKind};

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

/// Initiators, and how they prove who they are. The default: all of them, without a proof.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Names of the initiators that it is for; all if absent.
    pub initiators: Option<Vec<String>>,
    /// The user and the secret that they must know; none if absent.
    pub chap: Option<Credentials>,
}

impl Grant {
    /// Returns true if it is for an initiator.
    fn is_for(&self, initiator: &str) -> bool {
        let is_named = |names: &Vec<String>| names.iter().any(|n| normal_name(n) == initiator);
        self.initiators.as_ref().is_none_or(is_named)
    }
}

/// Conditions for the use of a target. The default: all initiators may use it, without a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetAccess {
    /// The initiators that may log in. An initiator needs one grant; none lets nobody in.
    pub grants: Vec<Grant>,
    /// How this target proves who it is to initiators that ask. Its secret must differ from those
    /// of `grants`, otherwise an initiator's own answer would serve as proof.
    pub mutual: Option<Credentials>,
}

impl Default for TargetAccess {
    fn default() -> Self {
        Self::from(Grant::default())
    }
}

impl From<Grant> for TargetAccess {
    fn from(grant: Grant) -> Self {
        Self {
            grants: vec![grant],
            mutual: None,
        }
    }
}

impl TargetAccess {
    fn grants_for(&self, initiator: &str) -> impl Iterator<Item = &Grant> {
        self.grants.iter().filter(move |g| g.is_for(initiator))
    }

    /// Returns true if the initiator may log in, after it has proved who it is.
    pub fn admits(&self, initiator: &str) -> bool {
        self.grants_for(initiator).next().is_some()
    }

    /// Returns the users that the initiator can prove to be; `None` if it needs no proof.
    pub(crate) fn proofs(&self, initiator: &str) -> Option<Vec<&Credentials>> {
        let proofs = self.grants_for(initiator).map(|g| g.chap.as_ref());
        proofs.collect()
    }

    /// Returns true if the initiator may use the target as it has proved, or not proved, who it is.
    pub(crate) fn admits_proof(&self, initiator: &str, proof: Option<&Credentials>) -> bool {
        let mut grants = self.grants_for(initiator);
        grants.any(|g| g.chap.is_none() || g.chap.as_ref() == proof)
    }

    /// Returns true if the target may be reached from other machines: every grant is for named
    /// initiators and needs a proof.
    pub fn is_protected(&self) -> bool {
        let is_strict = |g: &Grant| g.chap.is_some() && g.initiators.is_some();
        !self.grants.is_empty() && self.grants.iter().all(is_strict)
    }

    /// Returns false if a secret is too short, or the same in both directions.
    pub fn is_sound(&self) -> bool {
        let theirs = || self.grants.iter().filter_map(|g| g.chap.as_ref());
        let is_long = |c: &Credentials| c.secret.len() >= SECRET_BYTES_MIN;
        let is_reflected = |ours: &Credentials| theirs().any(|c| c.secret == ours.secret);
        !self.mutual.as_ref().is_some_and(is_reflected) && theirs().chain(&self.mutual).all(is_long)
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
    /// Where its persistent reservations survive a restart (APTPL); they cannot if absent.
    pub reservations: Option<Arc<dyn ReservationKeeper>>,
}

/// Keeps the persistent reservations of a disk over restarts. The program implements it.
pub trait ReservationKeeper: Send + Sync {
    /// Returns the kept ones, or `None` if there are none. An error says that they are unknown:
    /// then nothing is read or written until an initiator clears them. The implementation reports
    /// the reason.
    fn kept(&self) -> Result<Option<ReservationsRecord>, VolumeErrorKind>;

    /// Keeps these instead, durable on return; `None`: none. If they are the same, this costs
    /// nothing.
    fn keep(&self, record: Option<&ReservationsRecord>) -> Result<(), VolumeErrorKind>;
}

/// The targets that initiators can choose from. All connection threads may call this at once.
pub trait Targets: Send + Sync {
    /// Returns the names of all targets, in display order, each with the conditions for its use.
    fn list(&self) -> Vec<(String, TargetAccess)>;

    /// Returns the conditions for the use of a target, or `None` if there is no such target.
    fn access(&self, name: &str) -> Option<TargetAccess>;

    /// Returns the conditions of discovery, if they are others than
    /// [`crate::ServerOptions::discovery`] by now.
    fn discovery(&self) -> Option<TargetAccess> {
        None
    }

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

/// A session that was ended because its initiator may no longer use its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedSession {
    /// Name of the initiator.
    pub initiator: String,
    /// Name of the target; absent for discovery.
    pub target: Option<String>,
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
            reservations: None,
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

    fn grant(initiators: &[&str], secret: &str) -> Grant {
        Grant {
            initiators: Some(initiators.iter().map(|name| (*name).to_owned()).collect()),
            chap: credentials(secret),
        }
    }

    #[test]
    fn short_and_reflected_secrets_are_not_sound() {
        let sound = |theirs: &[&str], mutual| {
            let access = TargetAccess {
                grants: theirs.iter().map(|secret| grant(&[], secret)).collect(),
                mutual: credentials(mutual),
            };
            access.is_sound()
        };
        assert!(sound(&["a secret of us"], "another secret"));
        assert!(!sound(&["a secret of us"], "a secret of us"));
        assert!(!sound(
            &["another secret", "a secret of us"],
            "a secret of us"
        ));
        assert!(!sound(&["short"], "another secret"));
        assert!(!sound(&["another secret", "short"], "a secret of us"));
        assert!(!sound(&["a secret of us"], "short"));
        assert!(TargetAccess::default().is_sound() && !TargetAccess::default().is_protected());
    }

    #[test]
    fn initiators_are_named_in_any_case_and_secrets_are_not_shown() {
        let access = TargetAccess::from(grant(&["iqn.2026-11.org.example:A"], "not to be shown"));
        assert!(access.admits("iqn.2026-11.org.example:a"));
        assert!(!access.admits("iqn.2026-11.org.example:ab"));
        assert!(!format!("{access:?}").contains("shown"));
    }

    #[test]
    fn a_grant_is_for_its_initiators_only() {
        let access = TargetAccess {
            grants: vec![
                grant(&["iqn.x:a", "iqn.x:c"], "a secret of a"),
                grant(&["iqn.x:b"], "b"),
            ],
            mutual: None,
        };
        let (of_a, of_b) = (credentials("a secret of a"), credentials("b"));
        assert!(access.is_protected());
        assert_eq!(access.proofs("iqn.x:a"), Some(vec![of_a.as_ref().unwrap()]));
        assert_eq!(access.proofs("iqn.x:b"), Some(vec![of_b.as_ref().unwrap()]));
        assert!(access.admits_proof("iqn.x:c", of_a.as_ref()));
        assert!(!access.admits_proof("iqn.x:b", of_a.as_ref()));
        assert!(!access.admits_proof("iqn.x:d", of_a.as_ref()));
        assert!(!access.admits_proof("iqn.x:a", None));
        let mut open = access.clone();
        open.grants.push(Grant::default());
        assert!(!open.is_protected() && open.admits_proof("iqn.x:a", None));
        assert_eq!(open.proofs("iqn.x:a"), None);
        let closed = TargetAccess {
            grants: Vec::new(),
            mutual: None,
        };
        assert!(!closed.admits("iqn.x:a") && closed.is_sound() && !closed.is_protected());
    }
}
