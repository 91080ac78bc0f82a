use super::*;
use crate::targets::{Credentials, FixedTargets, Grant};
use crate::wire::pdu::request;
use media::SeededRandom;
use std::sync::Arc;
use volume::MemoryVolume;

const OPEN: &str = "iqn.2026-11.org.quintet:open";
const CLOSED: &str = "iqn.2026-11.org.quintet:closed";
const OURS: &str = "iqn.2026-11.org.example:us";
const OTHER: &str = "iqn.2026-11.org.example:other";

fn credentials(user: &str, secret: &str) -> Option<Credentials> {
    Some(Credentials {
        user: user.to_owned(),
        secret: secret.into(),
    })
}

fn targets() -> FixedTargets {
    let volume = || Arc::new(MemoryVolume::new(1 << 20));
    let grant = |initiator: &str, user: &str, secret: &str| Grant {
        initiators: Some(vec![initiator.to_owned()]),
        chap: credentials(user, secret),
    };
    let access = TargetAccess {
        grants: vec![
            grant(OTHER, "other user", "a secret of others"),
            grant(OURS, "user", "a secret of theirs"),
            grant(OURS, "second", "a second secret"),
        ],
        mutual: credentials("target", "a secret of ours"),
    };
    FixedTargets::default()
        .with(OPEN, volume(), TargetAccess::default())
        .with(CLOSED, volume(), access)
}

fn header(flags: u8) -> PduHeader {
    PduHeader::new(request::LOGIN, flags).with_u8::<8>(0x80)
}

fn text(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in pairs {
        text::push(&mut out, key, value);
    }
    out
}

fn with_login<R>(is_remote: bool, run: impl FnOnce(&mut Login<'_>) -> R) -> R {
    let (targets, random) = (targets(), SeededRandom::new(1));
    let rules = Rules {
        targets: &targets,
        discovery: &TargetAccess::default(),
        random: &random,
        is_remote,
        portal_group: 1,
    };
    run(&mut Login::new(rules))
}

fn replied(step: Step) -> Vec<(String, String)> {
    let (Step::Reply { text, .. } | Step::Done { text, .. }) = step else {
        panic!("{step:?}");
    };
    let pairs = text::decode(&text).unwrap();
    let owned = pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    owned.collect()
}

fn value(pairs: &[(String, String)], key: &str) -> String {
    let found = pairs.iter().find(|(k, _)| k == key);
    found
        .unwrap_or_else(|| panic!("{key} in {pairs:?}"))
        .1
        .clone()
}

fn start(target: &'static str) -> [(&'static str, &'static str); 2] {
    [("InitiatorName", OURS), ("TargetName", target)]
}

#[test]
fn an_open_target_needs_one_request() {
    with_login(false, |login| {
        let mut pairs = start(OPEN).to_vec();
        pairs.push(("HeaderDigest", "CRC32C"));
        let step = login.request(&header(0x87), &text(&pairs));
        assert!(matches!(step, Step::Done { flags: 0x87, .. }));
        let pairs = replied(step);
        assert_eq!(value(&pairs, "TargetPortalGroupTag"), "1");
        assert_eq!(value(&pairs, "HeaderDigest"), "CRC32C");
        assert_eq!(value(&pairs, "MaxRecvDataSegmentLength"), "131072");
    });
}

#[test]
fn names_are_checked() {
    let refused = |is_remote, pairs: &[(&str, &str)]| {
        with_login(is_remote, |login| {
            match login.request(&header(0x87), &text(pairs)) {
                Step::Refuse(status) => status,
                step => panic!("{step:?}"),
            }
        })
    };
    let target = ("TargetName", OPEN);
    assert_eq!(refused(false, &[target]), Status::MissingParameter);
    let ours = ("InitiatorName", OURS);
    assert_eq!(refused(false, &[ours]), Status::MissingParameter);
    let other = ("TargetName", "iqn.x:none");
    assert_eq!(refused(false, &[ours, other]), Status::NotFound);
    let closed = ("TargetName", CLOSED);
    let stranger = ("InitiatorName", "iqn.x:stranger");
    assert_eq!(refused(false, &[stranger, closed]), Status::NotAuthorized);
    assert_eq!(refused(true, &[ours, target]), Status::NotAuthorized);
    let kind = ("SessionType", "Other");
    assert_eq!(
        refused(false, &[ours, target, kind]),
        Status::UnsupportedSessionType
    );
    // Nobody enters without the security stage.
    assert_eq!(
        refused(false, &[ours, closed]),
        Status::AuthenticationFailed
    );
}

const CHALLENGE: &str = "0x00112233445566778899";

/// Logs in to the closed target, with this challenge for it, and returns the last step.
fn chap(secret: &str, user: &str, mutual: Option<&str>) -> Step {
    chap_of(OURS, secret, user, mutual)
}

fn chap_of(initiator: &str, secret: &str, user: &str, mutual: Option<&str>) -> Step {
    with_login(true, |login| {
        let mut pairs = vec![("InitiatorName", initiator), ("TargetName", CLOSED)];
        pairs.push(("AuthMethod", "None,CHAP"));
        let reply = login.request(&header(0x81), &text(&pairs));
        assert!(
            matches!(reply, Step::Reply { flags: 0, .. }),
            "no transit yet"
        );
        let reply = replied(login.request(&header(0), &text(&[("CHAP_A", "7,5")])));
        assert_eq!(value(&reply, "CHAP_A"), "7");
        let identifier = value(&reply, "CHAP_I").parse().unwrap();
        let challenge = text::binary(&value(&reply, "CHAP_C")).unwrap();
        let answer = Algorithm::Sha256.answer(identifier, secret.as_bytes(), &challenge);
        let answer = text::encode_binary(&answer);
        let mut pairs = vec![("CHAP_N", user), ("CHAP_R", &answer)];
        if let Some(challenge) = mutual {
            pairs.extend([("CHAP_I", "9"), ("CHAP_C", challenge)]);
        }
        login.request(&header(0x81), &text(&pairs))
    })
}

#[test]
fn chap_lets_in_clients_that_know_the_secret() {
    let failed = Step::Refuse(Status::AuthenticationFailed);
    let right = chap("a secret of theirs", "user", None);
    assert!(matches!(right, Step::Reply { flags: 0x81, .. }));
    assert_eq!(chap("a secret of ours", "user", None), failed);
    assert_eq!(chap("a secret of theirs", "other", None), failed);
    let reply = replied(chap("a secret of theirs", "user", Some(CHALLENGE)));
    assert_eq!(value(&reply, "CHAP_N"), "target");
    let challenge = text::binary(CHALLENGE).unwrap();
    let answer = Algorithm::Sha256.answer(9, b"a secret of ours", &challenge);
    assert_eq!(value(&reply, "CHAP_R"), text::encode_binary(&answer));
}

#[test]
fn a_secret_is_good_for_its_initiators_and_with_its_user_only() {
    let is_let_in = |initiator: &str, user: &str, secret: &str| {
        let step = chap_of(initiator, secret, user, None);
        match &step {
            Step::Reply { flags: 0x81, .. } => true,
            Step::Refuse(Status::AuthenticationFailed) => false,
            _ => panic!("{step:?}"),
        }
    };
    assert!(is_let_in(OURS, "user", "a secret of theirs"));
    assert!(is_let_in(OURS, "second", "a second secret"));
    assert!(is_let_in(OTHER, "other user", "a secret of others"));
    assert!(!is_let_in(OURS, "other user", "a secret of others"));
    assert!(!is_let_in(OTHER, "user", "a secret of theirs"));
    assert!(!is_let_in(OURS, "second", "a secret of theirs"));
    assert!(!is_let_in(OURS, "user", "a second secret"));
    // The same answer for a user that there is not.
    assert!(!is_let_in(OURS, "unknown", "a secret of theirs"));
}

#[test]
fn challenges_and_answers_have_a_length() {
    let failed = Step::Refuse(Status::AuthenticationFailed);
    let long = format!("0x{}", "00".repeat(1025));
    for challenge in ["0x", "0b", "", "9", &long] {
        let step = chap("a secret of theirs", "user", Some(challenge));
        assert_eq!(step, failed, "{challenge}");
    }
    let longest = format!("0x{}", "00".repeat(1024));
    for challenge in ["0x0", &longest] {
        let step = chap("a secret of theirs", "user", Some(challenge));
        assert!(matches!(step, Step::Reply { flags: 0x81, .. }));
    }
    for user in ["", &"u".repeat(8000)] {
        assert_eq!(chap("a secret of theirs", user, None), failed);
    }
}

#[test]
fn an_answer_cannot_be_replayed_or_reflected() {
    with_login(true, |login| {
        let mut pairs = start(CLOSED).to_vec();
        pairs.push(("AuthMethod", "CHAP"));
        login.request(&header(0), &text(&pairs));
        let reply = replied(login.request(&header(0), &text(&[("CHAP_A", "5")])));
        let theirs = value(&reply, "CHAP_C");
        let identifier = value(&reply, "CHAP_I");
        let secret = b"a secret of theirs";
        let challenge = text::binary(&theirs).unwrap();
        let answer = Algorithm::Md5.answer(identifier.parse().unwrap(), secret, &challenge);
        let answer = text::encode_binary(&answer);
        let pairs = [
            ("CHAP_N", "user"),
            ("CHAP_R", answer.as_str()),
            ("CHAP_I", "1"),
            ("CHAP_C", theirs.as_str()),
        ];
        let failed = Step::Refuse(Status::AuthenticationFailed);
        assert_eq!(
            login.request(&header(0), &text(&pairs)),
            failed,
            "reflected"
        );
        assert_eq!(
            login.request(&header(0), &text(&pairs[..2])),
            failed,
            "replayed"
        );
    });
}

#[test]
fn stages_follow_each_other() {
    for flags in [0x80, 0xc7, 0x8f, 0x86, 0x85, 0x08] {
        let step = with_login(false, |login| {
            login.request(&header(flags), &text(&start(OPEN)))
        });
        assert_eq!(step, Step::Refuse(Status::InvalidDuringLogin), "{flags:x}");
    }
    with_login(false, |login| {
        let wrong = header(0x87).with_u16::<14>(5);
        let step = login.request(&wrong, &text(&start(OPEN)));
        assert_eq!(step, Step::Refuse(Status::NoSuchSession));
    });
}

#[test]
fn continued_text_is_joined_and_bounded() {
    with_login(false, |login| {
        let all = text(&start(OPEN));
        let (first, second) = all.split_at(20);
        let step = login.request(&header(0x44), first);
        assert_eq!(
            step,
            Step::Reply {
                flags: 0x04,
                text: Vec::new()
            }
        );
        let step = login.request(&header(0x87), second);
        assert!(matches!(step, Step::Done { .. }));
    });
    with_login(false, |login| {
        let step = (0..10).map(|_| login.request(&header(0x44), &[b'a'; 8000]));
        assert_eq!(step.last(), Some(Step::Refuse(Status::InitiatorError)));
    });
}
