//! Parses the rules of iSCSI access: the initiators that may use each target. `serve` reads them
//! from a file, once, at its start.
//!
//! Invariant: a text that cannot be understood wholly is refused, with the line. Rules from a text
//! allow only what the text says. A secret is never printed.
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

use iscsi::{Credentials, NAME_BYTES_MAX, SECRET_BYTES_MIN, TargetAccess, normal_name};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

/// Maximum length of a user or secret, bytes: initiators accept no longer ones.
const VALUE_BYTES_MAX: usize = 255;

/// The initiators that may use each target. The default: all may use all, without a proof.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetRules {
    others: TargetAccess,
    discovery: Option<TargetAccess>,
    exports: BTreeMap<String, TargetAccess>,
}

/// A text of rules that is refused: the place in it, and the reason.
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
    /// Parses the text of a file.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        let mut sections = vec![Section::default()];
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            let refuse = |why: &dyn fmt::Display| {
                let place = format!("line {number}");
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
            others: no_initiator(),
            ..Self::default()
        };
        for section in sections {
            let line = section.line.max(1);
            let (name, access) = section
                .access()
                .map_err(|why| RulesError::new(&format!("section at line {line}"), &why))?;
            match name.strip_prefix(EXPORT) {
                Some(export) => {
                    let _ = rules.exports.insert(export.trim().to_owned(), access);
                }
                None if name == DISCOVERY => rules.discovery = Some(access),
                None => rules.others = access,
            }
        }
        rules.check_secrets()?;
        Ok(rules)
    }

    /// Refuses a secret that is used in both directions: an initiator could have a target's proof
    /// made by another target.
    fn check_secrets(&self) -> Result<(), RulesError> {
        let secret = |c: &Credentials| c.secret.clone();
        let all = || self.sections().map(|(_, access)| access);
        let theirs: Vec<_> = all().filter_map(|a| a.chap.as_ref().map(secret)).collect();
        let mut ours = all().filter_map(|a| a.mutual.as_ref().map(secret));
        match ours.any(|secret| theirs.contains(&secret)) {
            true => Err(RulesError::new(
                "all sections",
                &"a mutual-secret is also a secret; both directions need secrets of their own",
            )),
            false => Ok(()),
        }
    }

    fn sections(&self) -> impl Iterator<Item = (String, &TargetAccess)> {
        let exports = self.exports.iter();
        let exports = exports.map(|(name, access)| (format!("[{EXPORT}{name}]"), access));
        let discovery = (format!("[{DISCOVERY}]"), self.discovery());
        let others = ("the part before all sections".to_owned(), &self.others);
        [others, discovery].into_iter().chain(exports)
    }

    /// Returns who may ask for the list of targets.
    pub fn discovery(&self) -> &TargetAccess {
        self.discovery.as_ref().unwrap_or(&self.others)
    }

    /// Returns who may use an export: by its own section, else by the section of the volume or
    /// image that it is a state of, else by the part before all sections.
    pub fn of_export(&self, export: &str) -> &TargetAccess {
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
        let is_open = |(name, access): &(String, &TargetAccess)| {
            !access.is_protected() && (*name == discovery || **access != no_initiator())
        };
        match self.sections().find(is_open) {
            Some((section, _)) => Err(Unprotected { address, section }),
            None => Ok(()),
        }
    }
}

/// Conditions that no initiator meets.
fn no_initiator() -> TargetAccess {
    TargetAccess {
        initiators: Some(Vec::new()),
        ..TargetAccess::default()
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
            let name = normal_name(value);
            let is_name = kinds.iter().any(|kind| name.starts_with(kind))
                && name.len() <= NAME_BYTES_MAX
                && !name.contains(|c: char| c.is_whitespace() || c == ',');
            if !is_name {
                return Err(
                    "an initiator is one name that begins with iqn., eui. or naa.; \
                     write a line for each"
                        .to_owned(),
                );
            }
            self.initiators.push(name);
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

    fn access(mut self) -> Result<(String, TargetAccess), String> {
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
        let access = TargetAccess {
            initiators: (!is_open).then_some(self.initiators),
            chap,
            mutual,
        };
        Ok((self.name, access))
    }
}
