use super::*;
use crate::evidence::Curve;

const CSV: &str = "IO class id,IO class name,Eviction priority,Allocation\n\
    0,unclassified,150,1.00\n\
    1,metadata,10,1.00\n\
    2,file_size:le:4096,20,1.00\n\
    3,file_size:gt:4096,130,1.00\n\
    4,journal,,0.20\n\
    5,free,255,0.00\n";

fn policy() -> Policy {
    Policy::parse(CSV).expect("a policy")
}

/// Evidence of a class whose hits are spread evenly over `space` hundredths.
fn class(accesses: f64, hits_max: f64, space: usize, held: f64) -> ClassEvidence {
    let mut by_pattern = Curve::default();
    for bin in 0..space {
        by_pattern.add(bin, (hits_max / space as f64) as f32);
    }
    ClassEvidence {
        sampled: accesses as u64,
        accesses,
        hits: by_pattern.hits(held),
        by_pattern,
        otherwise: Curve::default(),
        pool_ns: Some(8e6),
        held_hundredths: held,
        recent: (accesses, 0.0),
    }
}

fn evidence(of: &[(usize, ClassEvidence)]) -> Evidence {
    let mut evidence = Evidence {
        tier_ns: Some(1e5),
        observed_ns: 3_600_000_000_000,
        window_ns: 3_600_000_000_000,
        ..Evidence::default()
    };
    for (class, of) in of {
        evidence.classes[*class] = of.clone();
    }
    evidence
}

fn of(advice: &Advice, class: u8) -> (Priority, u8) {
    let settings = advice.settings[usize::from(class)];
    (settings.priority, settings.share.hundredths())
}

fn advised(evidence: &Evidence, bounds: Bounds) -> Advice {
    let policy = policy();
    let in_force = policy.all_fast_settings();
    advise(&policy, &in_force, evidence, 600_000_000_000, bounds).expect("enough evidence")
}

#[test]
fn the_steepest_hits_get_the_space() {
    // Metadata gains everything in 10 %, small files in 40 %, large ones hardly anything.
    let evidence = evidence(&[
        (1, class(10_000.0, 9000.0, 10, 5.0)),
        (2, class(10_000.0, 8000.0, 40, 15.0)),
        (3, class(20_000.0, 2000.0, 200, 80.0)),
    ]);
    let advice = advised(&evidence, Bounds::Free);
    assert_eq!(of(&advice, 1), (Priority::Evictable(10), 11));
    assert_eq!(of(&advice, 2), (Priority::Evictable(11), 41));
    // It enters by its pattern as before, and has the rest.
    assert_eq!(of(&advice, 3), (Priority::Evictable(132), 51));
    let (now, expected) = advice.hits();
    assert!((now - (4500.0 + 3000.0 + 800.0)).abs() < 1.0, "{now}");
    assert!(
        (expected - (9000.0 + 8000.0 + 500.0)).abs() < 1.0,
        "{expected}"
    );
    assert!(advice.gain() > 1.0);
    // The journal and class 0 had no accesses.
    assert_eq!(of(&advice, 4), (Priority::Pinned, 20));
    assert_eq!(of(&advice, 0), (Priority::Evictable(150), 100));
    let journal = advice.classes.iter().find(|of| of.class == IoClass(4));
    assert!(journal.is_some_and(|of| !of.is_known));
}

#[test]
fn what_is_never_read_again_gets_nothing() {
    let evidence = evidence(&[
        (1, class(10_000.0, 5000.0, 50, 20.0)),
        (2, class(50_000.0, 100.0, 50, 70.0)),
        (4, class(1000.0, 0.0, 1, 10.0)),
    ]);
    let advice = advised(&evidence, Bounds::Free);
    assert_eq!(of(&advice, 2), (Priority::Evictable(255), 0));
    assert_eq!(
        of(&advice, 4),
        (Priority::Pinned, 0),
        "pinned, and wastes space"
    );
    // Only half at once, and it can come back.
    let advice = advised(&evidence, Bounds::Cautious);
    assert_eq!(of(&advice, 2), (Priority::Evictable(199), 45));
    assert_eq!(of(&advice, 1).1, 51);
    assert_eq!(of(&advice, 4), (Priority::Pinned, 5));
}

#[test]
fn cautious_changes_leave_one_percent_and_what_an_operator_keeps_out() {
    let evidence = evidence(&[
        (1, class(10_000.0, 0.0, 1, 0.0)),
        (2, class(900_000.0, 800_000.0, 100, 99.0)),
        (5, class(900_000.0, 800_000.0, 10, 0.0)),
    ]);
    let advice = advised(&evidence, Bounds::Cautious);
    assert_eq!(of(&advice, 1), (Priority::Evictable(199), 1));
    assert_eq!(of(&advice, 2).1, 100);
    assert_eq!(of(&advice, 5), (Priority::Evictable(255), 0));
    let advice = advised(&evidence, Bounds::Free);
    assert_eq!(of(&advice, 5).1, 11, "an operator may want to know");
}

#[test]
fn too_little_evidence_is_an_error() {
    let mut evidence = evidence(&[(1, class(999.0, 500.0, 10, 5.0))]);
    let policy = policy();
    let in_force = policy.all_fast_settings();
    let ask = |evidence: &Evidence| {
        let minute = 60_000_000_000;
        advise(&policy, &in_force, evidence, minute, Bounds::Free).map(drop)
    };
    let few = ask(&evidence).expect_err("999 accesses");
    assert_eq!(few.sampled, (999, 1000));
    evidence.classes[1].sampled = 1000;
    assert_eq!(ask(&evidence), Ok(()));
    evidence.observed_ns = 59_999_999_999;
    let short = ask(&evidence).expect_err("less than a minute");
    assert!(short.to_string().contains("59 of 60 s"), "{short}");
}

#[test]
fn a_tier_that_falls_short_of_the_curve_is_expected_to_do_so_again() {
    let mut short = class(10_000.0, 8000.0, 40, 20.0);
    short.hits /= 2.0;
    let evidence = evidence(&[(1, short)]);
    let advice = advised(&evidence, Bounds::Free);
    let (now, expected) = advice.hits();
    assert!((now - 2000.0).abs() < 1.0 && (expected - 4000.0).abs() < 1.0);
}

#[test]
fn streams_that_are_read_again_enter_always() {
    let mut streams = class(10_000.0, 0.0, 1, 0.0);
    streams.otherwise.add(20, 6000.0);
    let evidence = evidence(&[(3, streams), (1, class(1000.0, 900.0, 5, 5.0))]);
    let advice = advised(&evidence, Bounds::Free);
    assert!(matches!(of(&advice, 3).0, Priority::Evictable(10..74)));
    let mut rare = class(10_000.0, 0.0, 1, 0.0);
    rare.otherwise.add(20, 600.0);
    let evidence = self::evidence(&[(3, rare), (1, class(1000.0, 900.0, 5, 5.0))]);
    let advice = advised(&evidence, Bounds::Free);
    assert_eq!(
        of(&advice, 3),
        (Priority::Evictable(255), 0),
        "not worth its writes"
    );
}

#[test]
fn the_time_of_a_hit_decides_and_not_their_number() {
    let mut slow = class(1000.0, 900.0, 100, 50.0);
    slow.pool_ns = Some(50e6);
    let evidence = evidence(&[(1, slow), (2, class(2000.0, 1800.0, 100, 50.0))]);
    let advice = advised(&evidence, Bounds::Free);
    assert!(of(&advice, 1).1 > 95, "{:?}", of(&advice, 1));
    let (now, expected) = advice.saved_ns();
    assert!(expected > now && advice.hits().1 < advice.hits().0);
    assert!((advice.a_day(1.0) - 24.0).abs() < 1e-9);
}
