//! Decides how a login proceeds (RFC 7143, 6): stages, names, CHAP, keys. Sessions feed it requests
//! and send its replies. It does no I/O.
//!
//! Invariant: no login is complete before the initiator has proved who it is, if its target wants
//! that. A target that does not protect itself is never reached from another machine.

mod chap;
pub(crate) mod keys;
#[cfg(test)]
mod tests;

use crate::targets::{Credentials, NAME_BYTES_MAX, TargetAccess, Targets, normal_name};
use crate::wire::pdu::PduHeader;
use crate::wire::text;
use chap::{Algorithm, Challenge};
use keys::{Answer, Parameters, RECEIVE_BYTES_MAX, offer};
use media::Random;
use std::borrow::Cow;

/// Maximum length of the text of one stage, continued over several requests, bytes.
const TEXT_BYTES_MAX: usize = 32 << 10;

const TRANSIT: u8 = 0x80;
const CONTINUE: u8 = 0x40;
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

/// Reason why a login failed: class and detail of a Login Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Status {
    InitiatorError = 0x0200,
    AuthenticationFailed = 0x0201,
    NotAuthorized = 0x0202,
    NotFound = 0x0203,
    UnsupportedVersion = 0x0205,
    MissingParameter = 0x0207,
    UnsupportedSessionType = 0x0209,
    NoSuchSession = 0x020a,
    InvalidDuringLogin = 0x020b,
    ServiceUnavailable = 0x0301,
}

impl Status {
    /// Returns the reason in words, for the log.
    fn words(self) -> &'static str {
        match self {
            Self::InitiatorError => "it sent an invalid login",
            Self::AuthenticationFailed => {
                "it did not prove who it is: no CHAP, or a wrong user or secret"
            }
            Self::NotAuthorized => "it may not use this target",
            Self::NotFound => "there is no such target",
            Self::UnsupportedVersion => "it wants another version of the protocol",
            Self::MissingParameter => "a required key is missing",
            Self::UnsupportedSessionType => "it wants an unknown type of session",
            Self::NoSuchSession => "it wants another connection of a session, which is not served",
            Self::InvalidDuringLogin => "its requests are out of order",
            Self::ServiceUnavailable => "its old session did not end in time",
        }
    }
}

/// Reason of a refused login: for the initiator, and in words for the log.
pub(crate) struct Denial {
    pub(crate) status: Status,
    pub(crate) reason: Cow<'static, str>,
}

impl From<Status> for Denial {
    fn from(status: Status) -> Self {
        let reason = status.words().into();
        Self { status, reason }
    }
}

/// Result of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send this, and go on.
    Reply { flags: u8, text: Vec<u8> },
    /// Send this; the login is complete.
    Done { flags: u8, text: Vec<u8> },
    /// Send this, and close the connection.
    Refuse(Status),
}

/// Properties of a server that logins depend on.
pub(crate) struct Rules<'a> {
    pub(crate) targets: &'a dyn Targets,
    /// Conditions of discovery sessions.
    pub(crate) discovery: &'a TargetAccess,
    pub(crate) random: &'a dyn Random,
    /// The initiator may be on another machine.
    pub(crate) is_remote: bool,
    /// Tag of the server's only portal group.
    pub(crate) portal_group: u16,
}

/// A login in progress.
pub(crate) struct Login<'a> {
    rules: Rules<'a>,
    stage: Option<u8>,
    isid: [u8; 6],
    text: Vec<u8>,
    /// The names that the initiator sent, valid and in normal form: its own, and its target's.
    asked: (Option<String>, Option<String>),
    /// Reason for [`Status::NotAuthorized`], in words.
    unauthorized: Option<&'static str>,
    /// Set by the first complete request.
    names: Option<Names>,
    access: TargetAccess,
    /// The initiator must prove who it is.
    needs_proof: bool,
    /// The user that it has proved to be.
    proof: Option<Credentials>,
    algorithm_wanted: bool,
    challenge: Option<Challenge>,
    parameters: Parameters,
    seen: Vec<String>,
    has_declared: bool,
}

/// The names of an initiator port and of its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) initiator: String,
    pub(crate) isid: [u8; 6],
    /// The target; absent for a discovery session.
    pub(crate) target: Option<String>,
}

/// Result of a complete login.
pub(crate) struct Agreed {
    pub(crate) names: Names,
    /// The user that the initiator has proved to be, if it had to.
    pub(crate) proof: Option<Credentials>,
    pub(crate) parameters: Parameters,
}

/// Keys of the security stage, as one request contains them.
#[derive(Default)]
struct Security<'a> {
    methods: Option<&'a str>,
    algorithms: Option<&'a str>,
    user: Option<&'a str>,
    answer: Option<&'a str>,
    identifier: Option<&'a str>,
    challenge: Option<&'a str>,
}

impl<'a> Login<'a> {
    pub(crate) fn new(rules: Rules<'a>) -> Self {
        Self {
            rules,
            stage: None,
            isid: [0; 6],
            text: Vec::new(),
            asked: (None, None),
            unauthorized: None,
            names: None,
            access: TargetAccess::default(),
            needs_proof: true,
            proof: None,
            algorithm_wanted: false,
            challenge: None,
            parameters: Parameters::default(),
            seen: Vec::new(),
            has_declared: false,
        }
    }

    fn is_authenticated(&self) -> bool {
        !self.needs_proof || self.proof.is_some()
    }

    /// Returns the result of a complete login.
    pub(crate) fn agreed(self) -> Option<Agreed> {
        let mut parameters = self.parameters;
        let burst_bytes = parameters.burst_bytes;
        parameters.first_burst_bytes = parameters.first_burst_bytes.min(burst_bytes);
        Some(Agreed {
            names: self.names?,
            proof: self.proof,
            parameters,
        })
    }

    /// Returns the names of the initiator and of its target, as far as it sent valid ones.
    pub(crate) fn asked(&self) -> (Option<&str>, Option<&str>) {
        (self.asked.0.as_deref(), self.asked.1.as_deref())
    }

    /// Returns the reason for a refusal, in words.
    pub(crate) fn reason(&self, status: Status) -> Cow<'static, str> {
        let own = self
            .unauthorized
            .filter(|_| status == Status::NotAuthorized);
        own.unwrap_or(status.words()).into()
    }

    /// Takes a Login Request with its data.
    pub(crate) fn request(&mut self, header: &PduHeader, data: &[u8]) -> Step {
        match self.step(header, data) {
            Ok(step) => step,
            Err(status) => Step::Refuse(status),
        }
    }

    fn step(&mut self, header: &PduHeader, data: &[u8]) -> Result<Step, Status> {
        let flags = header.flags();
        let (current, next) = (flags >> 2 & 3, flags & 3);
        let transits = flags & TRANSIT != 0;
        let [.., version_min] = [header.0[2], header.0[3]];
        if version_min != 0 {
            return Err(Status::UnsupportedVersion);
        }
        let is_first = self.stage.is_none();
        let stage = *self.stage.get_or_insert(current);
        let [_, _, _, _, _, _, _, _, a, b, c, d, e, f, ..] = header.0;
        let isid = [a, b, c, d, e, f];
        if is_first {
            self.isid = isid;
        }
        let is_sound = matches!(current, SECURITY | OPERATIONAL)
            && current == stage
            && isid == self.isid
            && !(transits && flags & CONTINUE != 0)
            && !(transits && (next <= current || next == 2));
        if !is_sound {
            return Err(Status::InvalidDuringLogin);
        }
        if header.u16_at::<14>() != 0 {
            // Sessions have one connection, so none can be added.
            return Err(Status::NoSuchSession);
        }
        if self.text.len() + data.len() > TEXT_BYTES_MAX {
            return Err(Status::InitiatorError);
        }
        self.text.extend_from_slice(data);
        if flags & CONTINUE != 0 {
            let (flags, text) = (current << 2, Vec::new());
            return Ok(Step::Reply { flags, text });
        }
        let text = std::mem::take(&mut self.text);
        let pairs = text::decode(&text).ok_or(Status::InitiatorError)?;
        let mut out = Vec::new();
        self.identify(&pairs, &mut out)?;
        self.answer(stage, &pairs, &mut out)?;
        if !self.is_authenticated() && stage != SECURITY {
            return Err(Status::AuthenticationFailed);
        }
        if !(transits && self.is_authenticated()) {
            let flags = current << 2;
            return Ok(Step::Reply { flags, text: out });
        }
        self.stage = Some(next);
        let (flags, text) = (TRANSIT | current << 2 | next, out);
        Ok(match next == FULL_FEATURE {
            true => Step::Done { flags, text },
            false => Step::Reply { flags, text },
        })
    }

    /// Finds out who logs in where, once.
    fn identify(&mut self, pairs: &[(&str, &str)], out: &mut Vec<u8>) -> Result<(), Status> {
        if self.names.is_some() {
            return Ok(());
        }
        let value = |key| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        let initiator = value("InitiatorName").ok_or(Status::MissingParameter)?;
        let target = match value("SessionType") {
            Some("Discovery") => None,
            Some("Normal") | None => Some(value("TargetName").ok_or(Status::MissingParameter)?),
            Some(_) => return Err(Status::UnsupportedSessionType),
        };
        let (initiator, target) = (normal_name(initiator), target.map(normal_name));
        let is_name = |name: &String| !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        if !is_name(&initiator) || !target.as_ref().is_none_or(is_name) {
            return Err(Status::InitiatorError);
        }
        self.asked = (Some(initiator.clone()), target.clone());
        self.access = match &target {
            Some(name) => self.rules.targets.access(name).ok_or(Status::NotFound)?,
            None => self.rules.discovery.clone(),
        };
        let is_reachable = !self.rules.is_remote || self.access.is_protected();
        self.unauthorized = match &self.access {
            access if !access.admits(&initiator) => Some("it is not in the list of initiators"),
            _ if !is_reachable => {
                Some("off loopback, the target needs CHAP and a list of initiators")
            }
            access if !access.is_sound() => Some("a CHAP secret of the target is too weak"),
            _ => None,
        };
        if self.unauthorized.is_some() {
            return Err(Status::NotAuthorized);
        }
        self.needs_proof = self.access.proofs(&initiator).is_some();
        if target.is_some() {
            let tag = self.rules.portal_group.to_string();
            text::push(out, "TargetPortalGroupTag", &tag);
        }
        self.names = Some(Names {
            initiator,
            isid: self.isid,
            target,
        });
        Ok(())
    }

    fn answer(
        &mut self,
        stage: u8,
        pairs: &[(&str, &str)],
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let mut security = Security::default();
        let is_discovery = self.names.as_ref().is_none_or(|n| n.target.is_none());
        for &(key, value) in pairs {
            match key {
                "InitiatorName" | "TargetName" | "SessionType" => {}
                "AuthMethod" if stage == SECURITY => security.methods = Some(value),
                "CHAP_A" if stage == SECURITY => security.algorithms = Some(value),
                "CHAP_N" if stage == SECURITY => security.user = Some(value),
                "CHAP_R" if stage == SECURITY => security.answer = Some(value),
                "CHAP_I" if stage == SECURITY => security.identifier = Some(value),
                "CHAP_C" if stage == SECURITY => security.challenge = Some(value),
                _ => {
                    let seen = &mut self.seen;
                    match offer(&mut self.parameters, seen, is_discovery, (key, value)) {
                        Answer::Value(value) => text::push(out, key, &value),
                        Answer::Silent => {}
                        Answer::Broken => return Err(Status::InitiatorError),
                    }
                }
            }
        }
        if stage == OPERATIONAL && !self.has_declared {
            self.has_declared = true;
            let bytes = RECEIVE_BYTES_MAX.to_string();
            text::push(out, "MaxRecvDataSegmentLength", &bytes);
        }
        self.prove(&security, out)
    }

    /// Handles the keys of the security stage.
    fn prove(&mut self, keys: &Security<'_>, out: &mut Vec<u8>) -> Result<(), Status> {
        if let Some(methods) = keys.methods {
            let wanted = match self.needs_proof {
                true => "CHAP",
                false => "None",
            };
            if !methods.split(',').any(|method| method == wanted) {
                return Err(Status::AuthenticationFailed);
            }
            self.algorithm_wanted = self.needs_proof;
            text::push(out, "AuthMethod", wanted);
        }
        if let Some(algorithms) = keys.algorithms {
            let is_expected = std::mem::take(&mut self.algorithm_wanted);
            let algorithm = Algorithm::choose(algorithms).filter(|_| is_expected);
            let algorithm = algorithm.ok_or(Status::AuthenticationFailed)?;
            let challenge = Challenge::new(algorithm, self.rules.random);
            text::push(out, "CHAP_A", &(algorithm as u8).to_string());
            text::push(out, "CHAP_I", &challenge.identifier.to_string());
            text::push(out, "CHAP_C", &text::encode_binary(&challenge.bytes));
            self.challenge = Some(challenge);
            return Ok(());
        }
        let (Some(user), Some(answer)) = (keys.user, keys.answer) else {
            return Ok(());
        };
        // A challenge is used once.
        let challenge = self.challenge.take().ok_or(Status::AuthenticationFailed)?;
        let initiator = self.names.as_ref().map(|names| &*names.initiator);
        let proofs = initiator.and_then(|initiator| self.access.proofs(initiator));
        let answer = text::binary(answer).unwrap_or_default();
        // All are compared: the time must not tell whether there is such a user.
        let mut proof = None;
        for wanted in proofs.unwrap_or_default() {
            if challenge.accepts(wanted, user, &answer) {
                proof = Some(wanted.clone());
            }
        }
        if proof.is_none() {
            return Err(Status::AuthenticationFailed);
        }
        self.prove_ourselves(&challenge, keys, out)?;
        self.proof = proof;
        Ok(())
    }

    /// Answers the initiator's challenge, if there is one.
    fn prove_ourselves(
        &self,
        challenge: &Challenge,
        keys: &Security<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let (identifier, theirs) = match (keys.identifier, keys.challenge) {
            (None, None) => return Ok(()),
            (Some(identifier), Some(theirs)) => (identifier, theirs),
            _ => return Err(Status::MissingParameter),
        };
        let identifier = text::number(identifier).and_then(|n| u8::try_from(n).ok());
        let theirs = text::binary(theirs).filter(|theirs| *theirs != challenge.bytes);
        let (Some(identifier), Some(theirs), Some(ours)) =
            (identifier, theirs, &self.access.mutual)
        else {
            return Err(Status::AuthenticationFailed);
        };
        let algorithm = challenge.algorithm;
        let answer = algorithm.answer(identifier, &ours.secret, &theirs);
        text::push(out, "CHAP_N", &ours.user);
        text::push(out, "CHAP_R", &text::encode_binary(&answer));
        Ok(())
    }
}
