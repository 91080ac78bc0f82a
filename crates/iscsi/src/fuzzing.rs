//! Provides entry points for fuzzers: arbitrary bytes go in; nothing may panic or hang. The fuzz
//! targets and the seeded loops of the tests call these.
//!
//! Invariant: the same bytes always do the same.

use crate::login::{Login, Rules};
use crate::registry::Registry;
use crate::scsi::cdb::Cdb;
use crate::scsi::reservations::Nexus;
use crate::scsi::unit::{Properties, Unit};
use crate::session::Session;
use crate::targets::{Credentials, FixedTargets, Grant, TargetAccess, TargetUnit, Targets};
use crate::wire::pdu::{FINAL, HEADER_BYTES, PduHeader, padding, request};
use crate::wire::text;
use connections::{ByteStream, MemoryPool, Replay, ServerLimits, SessionContext};
use media::SeededRandom;
use std::sync::Arc;
use std::time::Duration;
use volume::{MemoryVolume, ReadOnly};

/// Name of the target that needs no proof.
pub const OPEN_TARGET: &str = "iqn.2026-11.org.quintet:disk";
const PROPERTIES: Properties = Properties {
    block_bytes: 512,
    write_cache: true,
    portal_group: 1,
};
const LIMIT: Duration = Duration::from_secs(10);

fn targets() -> FixedTargets {
    let credentials = |user: &str, secret: &str| {
        Some(Credentials {
            user: user.to_owned(),
            secret: secret.into(),
        })
    };
    let grant = |user: &str, secret: &str| Grant {
        initiators: None,
        chap: credentials(user, secret),
    };
    let closed = TargetAccess {
        grants: vec![
            grant("user", "a secret of theirs"),
            grant("second", "a second secret"),
        ],
        mutual: credentials("target", "a secret of ours"),
    };
    let odd = Arc::new(ReadOnly::new(MemoryVolume::new(12_345)));
    FixedTargets::default()
        .with(
            OPEN_TARGET,
            Arc::new(MemoryVolume::new(1 << 20)),
            TargetAccess::default(),
        )
        .with("iqn.2026-11.org.quintet:odd", odd, closed)
}

/// Feeds `data` to the decoders of text, and to a login as a series of requests: two bytes of flags
/// and length, then the text of each.
pub fn fuzz_login(data: &[u8]) {
    if let Some(pairs) = text::decode(data) {
        let mut again = Vec::new();
        for (key, value) in &pairs {
            text::push(&mut again, key, value);
            let _ = (text::number(value), text::binary(value));
        }
        assert_eq!(text::decode(&again), Some(pairs));
    }
    let (targets, random) = (targets(), SeededRandom::new(1));
    let discovery = TargetAccess::default();
    let mut login = Login::new(Rules {
        targets: &targets,
        discovery: &discovery,
        random: &random,
        is_remote: false,
        portal_group: 1,
    });
    let mut rest = data;
    while let Some(([flags, len], after)) = rest.split_first_chunk::<2>() {
        let len = usize::from(*len).min(after.len());
        let (text, next) = after.split_at(len);
        let header = PduHeader::new(request::LOGIN, *flags);
        let _ = login.request(&header, text);
        rest = next;
    }
    let _ = login.agreed();
}

/// Feeds commands to a unit: each is a block of 16 bytes and a length, then its data.
pub fn fuzz_commands(data: &[u8]) {
    let volume = Arc::new(MemoryVolume::new(1 << 20));
    let unit = TargetUnit {
        number: 0,
        volume,
        identity: None,
        reservations: None,
    };
    let unit = Unit::new(OPEN_TARGET, unit, PROPERTIES);
    let nexus = [1, 2].map(|number| Nexus::new(number, "iqn.x", [number as u8; 6]));
    nexus.iter().for_each(|nexus| unit.attach(nexus));
    let mut rest = data;
    while let Some((cdb, after)) = rest.split_first_chunk::<16>() {
        let Some((len, after)) = after.split_first() else {
            return;
        };
        let (list, next) = after.split_at(usize::from(*len).min(after.len()));
        let from = &nexus[usize::from(len & 1)];
        unit.admit_and_run(from, &Cdb(*cdb), list);
        rest = next;
    }
}

/// Runs a whole session with an initiator that sends exactly `data` after a right login, or `data`
/// alone if its first byte is odd.
pub fn fuzz_session(data: &[u8]) {
    let is_alone = data.first().is_some_and(|first| first & 1 == 1);
    let bytes = match is_alone {
        true => data.get(1..).unwrap_or_default().to_vec(),
        false => [login_request(), data.get(1..).unwrap_or_default().to_vec()].concat(),
    };
    session(Arc::new(Replay::new(&bytes))).run();
}

/// Makes a session without a server.
pub(crate) fn session(stream: Arc<dyn ByteStream>) -> Session {
    let limits = ServerLimits {
        handshake_limit: LIMIT,
        send_limit: LIMIT,
        stall_limit: LIMIT,
        stop_limit: LIMIT,
        ..ServerLimits::default()
    };
    let context = SessionContext::alone(stream, 16 << 20, limits);
    let bursts = Arc::new(MemoryPool::new(16 << 20, LIMIT));
    Session {
        number: 1,
        server: 0,
        targets: Arc::new(targets()) as Arc<dyn Targets>,
        discovery: TargetAccess::default(),
        random: Arc::new(SeededRandom::new(1)),
        registry: Arc::new(Registry::default()),
        is_remote: false,
        denials: Arc::default(),
        peer: "127.0.0.1:40000".to_owned(),
        portals: vec!["127.0.0.1:3260".to_owned()],
        idle_limit: LIMIT,
        units: PROPERTIES,
        bursts: bursts.share(0, context.connection.clone()),
        context,
    }
}

/// Returns a request that logs in to [`OPEN_TARGET`] without digests, with unsolicited data.
pub fn login_request() -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in [
        ("InitiatorName", "iqn.x:fuzz"),
        ("TargetName", OPEN_TARGET),
        ("InitialR2T", "No"),
        ("MaxRecvDataSegmentLength", "8192"),
    ] {
        text::push(&mut text, key, value);
    }
    let header = PduHeader::new(request::LOGIN | 0x40, FINAL | 0x07).with_data_bytes(text.len());
    text.resize(text.len() + padding(text.len()), 0);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + text.len());
    bytes.extend_from_slice(&header.0);
    bytes.extend_from_slice(&text);
    bytes
}
