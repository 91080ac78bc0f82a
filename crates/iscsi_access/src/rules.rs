//! Parses the rules of iSCSI access: the initiators that may use each target. `serve` reads them
//! from a file, at its start and when the file has changed.
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
//! # Several users: each line `user` begins another one, with the lines after it.
//! [export NAME]
//! user = web
//! secret = at least 12 bytes
//! initiator = iqn.1993-08.org.debian:01:d35f
//! user = db
//! secret = other 12 bytes
//! initiator = iqn.1993-08.org.debian:01:77aa
//! ```
//!
//! In a section with one user, the order of lines has no meaning: all of its initiators are for
//! that user. In one with several, an initiator is for the user before it. Then a secret or an
//! initiator before the first user is refused, and so is a user without initiators beside one with
//! them, a secret of two users, and a user that one initiator would have twice.
//!
//! Invariant: a text that cannot be understood wholly is refused, with the line. Rules from a text
//! allow only what the text says. A secret is never printed.

#[cfg(test)]
mod tests;

use iscsi::{Credentials, Grant, NAME_BYTES_MAX, SECRET_BYTES_MIN, TargetAccess, normal_name};
use std::collections::{BTreeMap, BTreeSet};
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
    settings: Vec<Setting>,
}

/// One line.
struct Setting {
    line: usize,
    key: &'static str,
    value: String,
}

/// A user with a secret, and the initiators that may log in so.
#[derive(Default)]
struct Pair {
    values: BTreeMap<&'static str, String>,
    initiators: Vec<String>,
}

/// A line that is refused, and the reason.
type Refused = (usize, String);

const USER: &str = "user";
const SECRET: &str = "secret";
const MUTUAL_USER: &str = "mutual-user";
const MUTUAL_SECRET: &str = "mutual-secret";
const INITIATOR: &str = "initiator";
const KEYS: [&str; 5] = [USER, SECRET, MUTUAL_USER, MUTUAL_SECRET, INITIATOR];
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
                let setting = Setting::new(number, key.trim(), value.trim());
                section.settings.push(setting.map_err(|why| refuse(&why))?);
            }
        }
        let mut rules = Self {
            others: no_initiator(),
            ..Self::default()
        };
        for section in sections {
            let (name, access) = section
                .access()
                .map_err(|(line, why)| RulesError::new(&format!("line {line}"), &why))?;
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
        let all = || self.sections().map(|(_, access)| access);
        let grants = all().flat_map(|access| &access.grants);
        let theirs = grants.filter_map(|grant| grant.chap.as_ref());
        let theirs: BTreeSet<&[u8]> = theirs.map(|chap| &*chap.secret).collect();
        let mut ours = all().filter_map(|access| access.mutual.as_ref());
        match ours.any(|mutual| theirs.contains(&*mutual.secret)) {
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
            !access.is_protected() && (*name == discovery || !access.grants.is_empty())
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
        grants: Vec::new(),
        mutual: None,
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

impl Setting {
    fn new(line: usize, key: &str, value: &str) -> Result<Self, String> {
        if value.is_empty() || value.chars().any(char::is_control) {
            return Err(format!(
                "{key} has no value, or one with control characters"
            ));
        }
        let known = KEYS.into_iter().find(|known| *known == key);
        let key = known.ok_or_else(|| format!("unknown key; there are {}", KEYS.join(", ")))?;
        let value = match key {
            INITIATOR => initiator(value)?,
            _ => value.to_owned(),
        };
        if value.len() > VALUE_BYTES_MAX {
            return Err(format!("{key} has more than {VALUE_BYTES_MAX} bytes"));
        }
        if matches!(key, SECRET | MUTUAL_SECRET) && value.len() < SECRET_BYTES_MIN {
            return Err(format!("{key} has fewer than {SECRET_BYTES_MIN} bytes"));
        }
        Ok(Self { line, key, value })
    }
}

/// Returns the normal form of the name of an initiator.
fn initiator(value: &str) -> Result<String, String> {
    let kinds = ["iqn.", "eui.", "naa."];
    let name = normal_name(value);
    let is_name = kinds.iter().any(|kind| name.starts_with(kind))
        && name.len() <= NAME_BYTES_MAX
        && !name.contains(|c: char| c.is_whitespace() || c == ',');
    match is_name {
        true => Ok(name),
        false => Err(
            "an initiator is one name that begins with iqn., eui. or naa.; write a line \
                      for each"
                .to_owned(),
        ),
    }
}

impl Pair {
    fn set(&mut self, setting: Setting) -> Result<(), Refused> {
        let Setting { line, key, value } = setting;
        if key == INITIATOR {
            self.initiators.push(value);
            return Ok(());
        }
        match self.values.insert(key, value) {
            Some(_) => Err((line, format!("{key} is there twice"))),
            None => Ok(()),
        }
    }

    /// Takes a user and its secret.
    fn credentials(&mut self, user: &str, secret: &str) -> Result<Option<Credentials>, String> {
        match (self.values.remove(user), self.values.remove(secret)) {
            (None, None) => Ok(None),
            (Some(user), Some(secret)) => Ok(Some(Credentials {
                user,
                secret: secret.into_bytes(),
            })),
            _ => Err(format!("{user} and {secret} belong together")),
        }
    }
}

impl Section {
    fn access(self) -> Result<(String, TargetAccess), Refused> {
        let is_user = |setting: &&Setting| setting.key == USER;
        let has_several = self.settings.iter().filter(is_user).count() > 1;
        let mut mutual = Pair::default();
        // With the line at which each begins.
        let mut pairs: Vec<(usize, Pair)> = Vec::new();
        if !has_several {
            pairs.push((self.line.max(1), Pair::default()));
        }
        for setting in self.settings {
            if matches!(setting.key, MUTUAL_USER | MUTUAL_SECRET) {
                mutual.set(setting)?;
                continue;
            }
            if has_several && setting.key == USER {
                pairs.push((setting.line, Pair::default()));
            }
            match pairs.last_mut() {
                Some((_, pair)) => pair.set(setting)?,
                None => {
                    let why = format!(
                        "this section has several users: which of them is this {} for? Write it \
                         after its user",
                        setting.key
                    );
                    return Err((setting.line, why));
                }
            }
        }
        let line = self.line.max(1);
        let at = |line: usize| move |why: String| (line, why);
        let mutual = mutual.credentials(MUTUAL_USER, MUTUAL_SECRET);
        let mutual = mutual.map_err(at(line))?;
        let mut grants = Grants::default();
        for (line, pair) in pairs {
            grants.add(pair, has_several).map_err(at(line))?;
        }
        let grants = grants.all;
        if mutual.is_some() && !grants.iter().any(|grant| grant.chap.is_some()) {
            let why = "mutual-user needs a user: initiators prove who they are first";
            return Err((line, why.to_owned()));
        }
        Ok((self.name, TargetAccess { grants, mutual }))
    }
}

/// The grants of a section.
#[derive(Default)]
struct Grants {
    all: Vec<Grant>,
    secrets: BTreeSet<Vec<u8>>,
    /// Users with their initiators; no initiator stands for all.
    users: BTreeSet<(String, Option<String>)>,
}

impl Grants {
    fn add(&mut self, mut pair: Pair, has_several: bool) -> Result<(), String> {
        let chap = pair.credentials(USER, SECRET)?;
        let is_for_all = pair.initiators.is_empty();
        let Some(chap) = chap else {
            if !is_for_all {
                self.all.push(Grant {
                    initiators: Some(pair.initiators),
                    chap: None,
                });
            }
            return Ok(());
        };
        let user = &chap.user;
        let mut others = self.all.iter();
        if has_several && others.any(|grant| grant.initiators.is_none() != is_for_all) {
            return Err(
                "of several users, either all have initiators or none has: write after each user \
                 the initiators that may log in so"
                    .to_owned(),
            );
        }
        if !self.secrets.insert(chap.secret.clone()) {
            return Err(format!(
                "the secret of {user} is also that of another user of this section; give each a \
                 secret of its own"
            ));
        }
        let mut keys: BTreeSet<Option<String>> =
            pair.initiators.iter().cloned().map(Some).collect();
        if is_for_all {
            keys.insert(None);
        }
        for initiator in keys {
            let name = initiator.clone().unwrap_or("all initiators".to_owned());
            if !self.users.insert((user.clone(), initiator)) {
                return Err(format!("user {user} is there twice for {name}"));
            }
        }
        self.all.push(Grant {
            initiators: (!is_for_all).then_some(pair.initiators),
            chap: Some(chap),
        });
        Ok(())
    }
}
