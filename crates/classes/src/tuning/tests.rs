use super::*;
use crate::evidence::{ClassEvidence, Curve};

const MINUTE: i64 = 60_000_000_000;
const PERIOD: i64 = 10 * MINUTE;

fn policy() -> Arc<Policy> {
    let csv = "IO class id,IO class name,Eviction priority,Allocation\n\
        0,unclassified,150,1.00\n\
        1,metadata,10,0.05\n\
        2,done,130,1.00\n";
    Arc::new(Policy::parse(csv).expect("a policy"))
}

/// Metadata would have all its hits in 30 %; the rest is a scan.
fn evidence(hits: f64) -> Evidence {
    let mut by_pattern = Curve::default();
    (0..30).for_each(|bin| by_pattern.add(bin, 300.0));
    let mut evidence = Evidence {
        observed_ns: 3_600_000_000_000,
        window_ns: 600_000_000_000,
        ..Evidence::default()
    };
    evidence.classes[1] = ClassEvidence {
        sampled: 5000,
        accesses: 10_000.0,
        hits,
        by_pattern,
        pool_ns: Some(8e6),
        held_hundredths: 5.0,
        recent: (10_000.0, hits),
        ..ClassEvidence::default()
    };
    evidence.classes[2] = ClassEvidence {
        sampled: 5000,
        accesses: 10_000.0,
        pool_ns: Some(8e6),
        held_hundredths: 90.0,
        recent: (10_000.0, 0.0),
        ..ClassEvidence::default()
    };
    evidence
}

fn at(periods: i64) -> UnixNanos {
    UnixNanos(periods * PERIOD)
}

fn tuner() -> Tuner {
    Tuner::new(policy(), at(0), PERIOD as u64)
}

fn share(settings: &[ClassSettings; CLASSES], class: u8) -> u8 {
    settings[usize::from(class)].share.hundredths()
}

#[test]
fn it_waits_for_time_and_accesses() {
    let mut tuner = tuner();
    let early = UnixNanos(PERIOD - 1);
    assert_eq!(tuner.step(&evidence(1500.0), early), Tuned::TooEarly);
    let mut few = evidence(1500.0);
    few.classes[1].recent = (400.0, 0.0);
    few.classes[2].recent = (400.0, 0.0);
    assert_eq!(tuner.step(&few, at(1)), Tuned::TooEarly);
    assert!(matches!(
        tuner.step(&evidence(1500.0), at(1)),
        Tuned::Changed(_)
    ));
    // The clock goes back: a whole period again.
    let back = UnixNanos(at(1).0 - 5 * MINUTE);
    assert_eq!(tuner.step(&evidence(9000.0), back), Tuned::TooEarly);
    let soon = UnixNanos(back.0 + 9 * MINUTE);
    assert_eq!(tuner.step(&evidence(9000.0), soon), Tuned::TooEarly);
}

#[test]
fn a_gain_is_applied_and_stays() {
    let mut tuner = tuner();
    let Tuned::Changed(settings) = tuner.step(&evidence(1500.0), at(1)) else {
        panic!("a change");
    };
    assert!(share(&settings, 1) >= 30 && share(&settings, 2) < 80);
    assert_eq!(&settings, tuner.settings());
    let tuning = tuner.tuning();
    assert_eq!((tuning.changed, tuning.changes), (Some(at(1)), (1, 0)));
    assert!(
        tuning
            .hits_percent
            .is_some_and(|(now, then)| now < 8.0 && then > 40.0)
    );
    let mut good = evidence(9000.0);
    good.classes[1].held_hundredths = 35.0;
    good.classes[2].held_hundredths = 60.0;
    assert_eq!(tuner.step(&good, at(2)), Tuned::Kept);
    assert_eq!(&settings, tuner.settings());
}

#[test]
fn a_loss_is_taken_back_and_the_next_change_waits() {
    let mut tuner = tuner();
    let before = *tuner.settings();
    let mut now = 1;
    for (nth, wait) in [1, 2, 4, 8, 16, 16].into_iter().enumerate() {
        let tuned = tuner.step(&evidence(1500.0), at(now));
        assert!(matches!(tuned, Tuned::Changed(_)), "{nth}: {tuned:?}");
        let tuned = tuner.step(&evidence(1400.0), at(now + 1));
        assert_eq!(tuned, Tuned::TakenBack(before));
        for period in 0..wait {
            let tuned = tuner.step(&evidence(1500.0), at(now + 2 + period));
            assert_eq!(tuned, Tuned::Kept, "{nth}, {period}");
        }
        now += 2 + wait;
    }
    assert_eq!(tuner.tuning().changes, (6, 6));
}

#[test]
fn fewer_accesses_of_a_class_are_no_loss() {
    let mut tuner = tuner();
    assert!(matches!(
        tuner.step(&evidence(1500.0), at(1)),
        Tuned::Changed(_)
    ));
    // Metadata is asked for a tenth as often, with more hits each; the scan goes on.
    let mut rarer = evidence(1500.0);
    rarer.classes[1].recent = (1000.0, 200.0);
    let tuned = tuner.step(&rarer, at(2));
    assert!(!matches!(tuned, Tuned::TakenBack(_)), "{tuned:?}");
}

#[test]
fn no_class_loses_more_than_half_or_all() {
    let mut tuner = tuner();
    let Tuned::Changed(settings) = tuner.step(&evidence(1500.0), at(1)) else {
        panic!("a change");
    };
    assert!(share(&settings, 2) >= 45);
    let mut least = evidence(1500.0);
    least.classes[2].held_hundredths = 1.0;
    let mut tuner = self::tuner();
    let Tuned::Changed(settings) = tuner.step(&least, at(1)) else {
        panic!("a change");
    };
    assert!(share(&settings, 2) >= 1);
}
