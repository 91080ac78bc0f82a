//! Negotiates the operational keys of a session (RFC 7143, 13). The login calls this.
//!
//! Invariant: a key is answered once, and with a value that both sides may use. An offer outside
//! its range is rejected and changes nothing.

use crate::replies::Format;
use crate::wire::text;

/// Largest data segment that initiators may send us, bytes. A PDU fits the input of a connection.
pub(crate) const RECEIVE_BYTES_MAX: u32 = 128 << 10;
/// Largest data segment before it is negotiated, bytes (RFC 7143, 13.12).
pub(crate) const SEGMENT_BYTES_DEFAULT: u32 = 8192;
/// Largest amount of data of one R2T, or of one sequence of Data-In, bytes.
const BURST_BYTES_MAX: u32 = 1 << 20;
/// Largest amount of data that a write may send without being asked, bytes.
pub(crate) const FIRST_BURST_BYTES_MAX: u32 = 64 << 10;
/// Largest value of a length, bytes.
const LENGTH_MAX: u64 = (1 << 24) - 1;

/// Values that hold for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) header_digest: bool,
    pub(crate) data_digest: bool,
    pub(crate) initial_r2t: bool,
    pub(crate) immediate_data: bool,
    /// Largest data segment that the initiator takes, bytes.
    pub(crate) send_bytes: u32,
    pub(crate) burst_bytes: u32,
    pub(crate) first_burst_bytes: u32,
}

impl Parameters {
    /// Returns how PDUs are laid out after the login.
    pub(crate) fn format(&self) -> Format {
        Format {
            header_digest: self.header_digest,
            data_digest: self.data_digest,
        }
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            initial_r2t: true,
            immediate_data: true,
            send_bytes: SEGMENT_BYTES_DEFAULT,
            burst_bytes: 262_144,
            first_burst_bytes: FIRST_BURST_BYTES_MAX,
        }
    }
}

/// Result of an offer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The key has this value now.
    Value(String),
    /// The key is only declared, and needs no answer.
    Silent,
    /// The initiator broke the rules of this key.
    Broken,
}

/// Returns the answer to an offer. `seen` lists the keys offered before.
pub(crate) fn offer<'a>(
    parameters: &mut Parameters,
    seen: &mut Vec<String>,
    is_discovery: bool,
    (key, value): (&'a str, &'a str),
) -> Answer {
    if seen.iter().any(|k| k == key) || seen.len() == text::PAIRS_MAX {
        return Answer::Broken;
    }
    seen.push(key.to_owned());
    let is_of_writes = matches!(
        key,
        "MaxConnections"
            | "InitialR2T"
            | "ImmediateData"
            | "MaxBurstLength"
            | "FirstBurstLength"
            | "MaxOutstandingR2T"
            | "DataPDUInOrder"
            | "DataSequenceInOrder"
    );
    if is_discovery && is_of_writes {
        return Answer::Value("Irrelevant".to_owned());
    }
    let answer = match key {
        "HeaderDigest" => digest(value, &mut parameters.header_digest),
        "DataDigest" => digest(value, &mut parameters.data_digest),
        // Yes wins.
        "InitialR2T" => yes_or_no(value).map(|offered| {
            parameters.initial_r2t = offered;
            word(offered)
        }),
        // No wins.
        "ImmediateData" => yes_or_no(value).map(|offered| {
            parameters.immediate_data = offered;
            word(offered)
        }),
        "DataPDUInOrder" | "DataSequenceInOrder" => yes_or_no(value).map(|_| word(true)),
        "MaxRecvDataSegmentLength" => {
            let Some(bytes) = within(value, 512, LENGTH_MAX) else {
                return Answer::Value("Reject".to_owned());
            };
            parameters.send_bytes = bytes as u32;
            return Answer::Silent;
        }
        "MaxBurstLength" => within(value, 512, LENGTH_MAX).map(|bytes| {
            parameters.burst_bytes = (bytes as u32).min(BURST_BYTES_MAX);
            parameters.burst_bytes.to_string()
        }),
        "FirstBurstLength" => within(value, 512, LENGTH_MAX).map(|bytes| {
            parameters.first_burst_bytes = (bytes as u32).min(FIRST_BURST_BYTES_MAX);
            parameters.first_burst_bytes.to_string()
        }),
        "MaxConnections" => within(value, 1, 65_535).map(|_| "1".to_owned()),
        "MaxOutstandingR2T" => within(value, 1, 65_535).map(|_| "1".to_owned()),
        "DefaultTime2Wait" => within(value, 0, 3600).map(|seconds| seconds.to_string()),
        "DefaultTime2Retain" => within(value, 0, 3600).map(|_| "0".to_owned()),
        "ErrorRecoveryLevel" => within(value, 0, 2).map(|_| "0".to_owned()),
        "TaskReporting" => {
            let is_offered = value.split(',').any(|v| v == "RFC3720");
            is_offered.then(|| "RFC3720".to_owned())
        }
        "iSCSIProtocolLevel" => within(value, 0, 31).map(|level| level.min(1).to_string()),
        "InitiatorAlias" => return Answer::Silent,
        // Markers are obsolete (RFC 7143, 13.25).
        "IFMarker" | "OFMarker" => Some("No".to_owned()),
        "IFMarkInt" | "OFMarkInt" => None,
        // Known, but not to be offered here.
        "SendTargets" | "TargetAlias" | "TargetAddress" | "TargetPortalGroupTag" | "AuthMethod" => {
            None
        }
        _ => Some("NotUnderstood".to_owned()),
    };
    Answer::Value(answer.unwrap_or_else(|| "Reject".to_owned()))
}

fn within(value: &str, least: u64, most: u64) -> Option<u64> {
    text::number(value).filter(|number| (least..=most).contains(number))
}

fn yes_or_no(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

fn word(yes: bool) -> String {
    if yes { "Yes" } else { "No" }.to_owned()
}

fn digest(value: &str, used: &mut bool) -> Option<String> {
    let chosen = value.split(',').find(|v| matches!(*v, "CRC32C" | "None"))?;
    *used = chosen == "CRC32C";
    Some(chosen.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, value: &str) -> (Answer, Parameters) {
        let mut parameters = Parameters::default();
        let answer = offer(&mut parameters, &mut Vec::new(), false, (key, value));
        (answer, parameters)
    }

    #[test]
    fn every_key_has_its_result_function() {
        let table = [
            ("HeaderDigest", "CRC32C,None", "CRC32C"),
            ("HeaderDigest", "None,CRC32C", "None"),
            ("DataDigest", "X,CRC32C", "CRC32C"),
            ("DataDigest", "X", "Reject"),
            ("InitialR2T", "Yes", "Yes"),
            ("InitialR2T", "No", "No"),
            ("InitialR2T", "no", "Reject"),
            ("ImmediateData", "No", "No"),
            ("MaxConnections", "8", "1"),
            ("MaxConnections", "0", "Reject"),
            ("MaxBurstLength", "16776192", "1048576"),
            ("MaxBurstLength", "0x1000", "4096"),
            ("MaxBurstLength", "511", "Reject"),
            ("FirstBurstLength", "1048576", "65536"),
            ("FirstBurstLength", "8192", "8192"),
            ("MaxOutstandingR2T", "4", "1"),
            ("DefaultTime2Wait", "2", "2"),
            ("DefaultTime2Retain", "20", "0"),
            ("DefaultTime2Retain", "3601", "Reject"),
            ("DataPDUInOrder", "No", "Yes"),
            ("DataSequenceInOrder", "No", "Yes"),
            ("ErrorRecoveryLevel", "2", "0"),
            ("TaskReporting", "FastAbort,RFC3720", "RFC3720"),
            ("iSCSIProtocolLevel", "2", "1"),
            ("IFMarker", "Yes", "No"),
            ("OFMarkInt", "2048~65535", "Reject"),
            ("SendTargets", "All", "Reject"),
            ("X-org.example.thing", "1", "NotUnderstood"),
            ("MaxRecvDataSegmentLength", "1", "Reject"),
        ];
        for (key, offered, wanted) in table {
            let answer = Answer::Value(wanted.to_owned());
            assert_eq!(one(key, offered).0, answer, "{key}={offered}");
        }
        assert_eq!(one("InitiatorAlias", "me").0, Answer::Silent);
        let (answer, parameters) = one("MaxRecvDataSegmentLength", "65536");
        assert_eq!((answer, parameters.send_bytes), (Answer::Silent, 65_536));
    }

    #[test]
    fn a_key_is_offered_once_and_only_where_it_means_something() {
        let (mut parameters, mut seen) = (Parameters::default(), Vec::new());
        let mut offered = |key| offer(&mut parameters, &mut seen, true, (key, "Yes"));
        let irrelevant = Answer::Value("Irrelevant".to_owned());
        assert_eq!(offered("InitialR2T"), irrelevant);
        assert_eq!(offered("InitialR2T"), Answer::Broken);
    }
}
