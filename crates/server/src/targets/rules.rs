//! Reads from a file who may use which iSCSI target. `serve` reads it once, at its start.
//!
//! Invariant: a file that cannot be understood wholly is refused, with the line. With a file, nobody
//! may do what it does not allow. A secret is never printed, and never read from a file that other
//! users can read or write.
//!
//! ```text
//! # Discovery, and every export without a section of its own.
//! user = web
//! secret = at least 12 bytes
//! mutual-user = quintet
//! mutual-secret = another secret
//! initiator = iqn.1993-08.org.debian:01:d35f
//!
//! [discovery]
//! ...
//! [export NAME]
//! ...
//! ```

#[cfg(test)]
mod tests;

use crate::settings::Environment;
use iscsi::{Access, Credentials, NAME_BYTES_MAX, SECRET_BYTES_MIN};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Maximum size of the file, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum length of a user or secret, bytes: initiators accept no longer ones.
const VALUE_BYTES_MAX: usize = 255;

/// Who may use which target. The default: everybody may use all, without a proof.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetRules {
    others: Access,
    discovery: Option<Access>,
    exports: BTreeMap<String, Access>,
}

/// A file of rules that is refused: the place in it, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct RulesError {
    place: String,
    why: String,
}

/// The rules do not allow to serve an address that other machines can reach.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot serve iSCSI on {address}: other machines can reach it, and {section} of the access \
     file lacks a user with a secret, or an initiator, or there is no such file; add them, or \
     serve a loopback address"
)]
pub struct Unprotected {
    address: SocketAddr,
    section: String,
}

/// Settings of one section, as far as they have been read.
#[derive(Default)]
struct Section {
    line: usize,
    name: String,
    values: BTreeMap<&'static str, String>,
    initiators: Vec<String>,
}

/// Settings that a section has once.
const KEYS: [&str; 4] = ["user", "secret", "mutual-user", "mutual-secret"];
const INITIATOR: &str = "initiator";
const DISCOVERY: &str = "discovery";
const EXPORT: &str = "export ";

impl TargetRules {
    /// Reads a file. It must belong to this user or root, and nobody else may read or write it.
    /// Credentials of a service are exempt: their access list looks like permissions of a group.
    pub fn read(path: &Path, environment: &Environment) -> Result<Self, RulesError> {
        let place = path.display().to_string();
        let refuse = |why: &dyn fmt::Display| RulesError::new(&place, why);
        let system = |e| refuse(&units::reason(&e));
        let file = File::open(path).map_err(system)?;
        let metadata = file.metadata().map_err(system)?;
        let credentials = environment.value("CREDENTIALS_DIRECTORY");
        if !credentials.is_some_and(|directory| path.starts_with(directory)) {
            let (mode, owner) = (metadata.mode() & 0o777, metadata.uid());
            if mode & 0o077 != 0 {
                return Err(refuse(&format_args!(
                    "other users can read or write its secrets (mode {mode:04o}); \
                     run chmod 600 {place}"
                )));
            }
            if owner != 0 && owner != rustix::process::geteuid().as_raw() {
                return Err(refuse(&format_args!(
                    "it belongs to another user ({owner}); give it to the user of the server"
                )));
            }
        }
        let mut text = String::new();
        let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(system)?;
        match text.len() as u64 > FILE_BYTES_MAX {
            true => Err(refuse(&"it is longer than 1 MiB")),
            false => Self::parse(&place, &text),
        }
    }

    /// Understands the text of a file. `place` is its name in messages.
    fn parse(place: &str, text: &str) -> Result<Self, RulesError> {
        let mut sections = vec![Section::default()];
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            let refuse = |why: &dyn fmt::Display| {
                let place = format!("{place}, line {number}");
                RulesError::new(&place, why)
            };
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[') {
                let name = name.strip_suffix(']');
                let name = name.ok_or_else(|| refuse(&"a section ends with ]"))?.trim();
                if name != DISCOVERY && name.strip_prefix(EXPORT).is_none_or(str::is_empty) {
                    return Err(refuse(
                        &"unknown section; there are [discovery] and [export NAME]",
                    ));
                }
                if sections.iter().any(|section| section.name == name) {
                    return Err(refuse(&format_args!("[{name}] is there twice")));
                }
                sections.push(Section {
                    line: number,
                    name: name.to_owned(),
                    ..Section::default()
                });
                continue;
            }
            let (key, value) = line
                .split_once('=')
                .ok_or_else(|| refuse(&"this is neither KEY = VALUE nor [SECTION]"))?;
            // One section is always there.
            if let Some(section) = sections.last_mut() {
                let set = section.set(key.trim(), value.trim());
                set.map_err(|why| refuse(&why))?;
            }
        }
        let mut rules = Self {
            others: nobody(),
            ..Self::default()
        };
        for section in sections {
            let line = section.line.max(1);
            let (name, access) = section.access().map_err(|why| {
                RulesError::new(&format!("{place}, section at line {line}"), &why)
            })?;
            match name.strip_prefix(EXPORT) {
                Some(export) => {
                    let _ = rules.exports.insert(export.trim().to_owned(), access);
                }
                None if name == DISCOVERY => rules.discovery = Some(access),
                None => rules.others = access,
            }
        }
        rules.check_secrets(place)?;
        Ok(rules)
    }

    /// Refuses a secret that is used in both directions: an initiator could have a target's proof
    /// made by another target.
    fn check_secrets(&self, place: &str) -> Result<(), RulesError> {
        let secret = |c: &Credentials| c.secret.clone();
        let all = || self.sections().map(|(_, access)| access);
        let theirs: Vec<_> = all().filter_map(|a| a.chap.as_ref().map(secret)).collect();
        let mut ours = all().filter_map(|a| a.mutual.as_ref().map(secret));
        match ours.any(|secret| theirs.contains(&secret)) {
            true => Err(RulesError::new(
                place,
                &"a mutual-secret is also a secret; both directions need secrets of their own",
            )),
            false => Ok(()),
        }
    }

    fn sections(&self) -> impl Iterator<Item = (String, &Access)> {
        let exports = self.exports.iter();
        let exports = exports.map(|(name, access)| (format!("[{EXPORT}{name}]"), access));
        let discovery = (format!("[{DISCOVERY}]"), self.discovery());
        let others = ("the part before all sections".to_owned(), &self.others);
        [others, discovery].into_iter().chain(exports)
    }

    /// Returns who may ask for the list of targets.
    pub fn discovery(&self) -> &Access {
        self.discovery.as_ref().unwrap_or(&self.others)
    }

    /// Returns who may use an export: by its own section, else by the section of the volume or
    /// image that it is a state of, else by the part before all sections.
    pub fn of_export(&self, export: &str) -> &Access {
        let whole = export.split_once('@').map_or(export, |(name, _)| name);
        let own = self.exports.get(export);
        own.or_else(|| self.exports.get(whole))
            .unwrap_or(&self.others)
    }

    /// Returns the exports that have a section.
    pub fn exports(&self) -> impl Iterator<Item = &str> {
        self.exports.keys().map(String::as_str)
    }

    /// Refuses an address that other machines can reach unless discovery, and every section that
    /// lets anybody in, needs a proof and a named initiator.
    pub fn check(&self, address: SocketAddr) -> Result<(), Unprotected> {
        if address.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        let discovery = format!("[{DISCOVERY}]");
        let is_open = |(name, access): &(String, &Access)| {
            !access.is_protected() && (*name == discovery || **access != nobody())
        };
        match self.sections().find(is_open) {
            Some((section, _)) => Err(Unprotected { address, section }),
            None => Ok(()),
        }
    }
}

/// Conditions that no initiator meets.
fn nobody() -> Access {
    Access {
        initiators: Some(Vec::new()),
        ..Access::default()
    }
}

impl RulesError {
    fn new(place: &str, why: &dyn fmt::Display) -> Self {
        Self {
            place: place.to_owned(),
            why: why.to_string(),
        }
    }
}

impl Section {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if value.is_empty() || value.chars().any(char::is_control) {
            return Err(format!(
                "{key} has no value, or one with control characters"
            ));
        }
        if key == INITIATOR {
            let kinds = ["iqn.", "eui.", "naa."];
            let is_name = kinds.iter().any(|kind| value.starts_with(kind))
                && value.len() <= NAME_BYTES_MAX
                && !value.contains(|c: char| c.is_whitespace() || c == ',');
            if !is_name {
                return Err(
                    "an initiator is one name that begins with iqn., eui. or naa.; \
                     write a line for each"
                        .to_owned(),
                );
            }
            self.initiators.push(value.to_owned());
            return Ok(());
        }
        let known = KEYS.into_iter().find(|known| *known == key);
        let known = known
            .ok_or_else(|| format!("unknown key; there are {} and {INITIATOR}", KEYS.join(", ")))?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(format!("{key} has more than {VALUE_BYTES_MAX} bytes"));
        }
        if key.ends_with("secret") && value.len() < SECRET_BYTES_MIN {
            return Err(format!("{key} has fewer than {SECRET_BYTES_MIN} bytes"));
        }
        match self.values.insert(known, value.to_owned()) {
            Some(_) => Err(format!("{key} is there twice")),
            None => Ok(()),
        }
    }

    fn access(mut self) -> Result<(String, Access), String> {
        let mut take = |key: &str| self.values.remove(key);
        let pairs = [
            ("user", "secret", take("user"), take("secret")),
            (
                "mutual-user",
                "mutual-secret",
                take("mutual-user"),
                take("mutual-secret"),
            ),
        ];
        let [chap, mutual] =
            pairs.map(
                |(user_key, secret_key, user, secret)| match (user, secret) {
                    (None, None) => Ok(None),
                    (Some(user), Some(secret)) => Ok(Some(Credentials {
                        user,
                        secret: secret.into_bytes(),
                    })),
                    _ => Err(format!("{user_key} and {secret_key} belong together")),
                },
            );
        let (chap, mutual) = (chap?, mutual?);
        if mutual.is_some() && chap.is_none() {
            return Err("mutual-user needs a user: initiators prove who they are first".to_owned());
        }
        let is_open = chap.is_some() && self.initiators.is_empty();
        let access = Access {
            initiators: (!is_open).then_some(self.initiators),
            chap,
            mutual,
        };
        Ok((self.name, access))
    }
}
