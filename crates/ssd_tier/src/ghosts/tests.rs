use super::*;
use crate::Kind;

const CHUNK: u32 = 4096;
const HUNDREDTH: u64 = 100 * CHUNK as u64;
const SECOND: i64 = 1_000_000_000;

fn name(n: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    bytes[..8]
        .copy_from_slice(&mix(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes());
    Fingerprint(bytes)
}

/// Ghosts of a tier of 10,000 chunks.
fn ghosts() -> Ghosts {
    let ghosts = Ghosts::new(42);
    ghosts.set_capacity(100 * HUNDREDTH);
    ghosts
}

fn read(is_random: bool) -> Access {
    Access {
        bytes: CHUNK,
        is_random,
        is_hit: false,
        ns: 1000,
    }
}

fn ask(ghosts: &Ghosts, class: u8, n: u64) {
    if ghosts.samples(&name(n), IoClass(class)) {
        ghosts.note_read(&name(n), IoClass(class), &read(true));
    }
}

fn evidence(ghosts: &Ghosts) -> Evidence {
    ghosts.evidence(false, |_: CacheClass| 0.0)
}

/// Returns the part of a class's accesses that hit in so many hundredths.
fn ratio(ghosts: &Ghosts, class: u8, hundredths: f64) -> f64 {
    let evidence = evidence(ghosts);
    let of = evidence.of(IoClass(class)).expect("a class");
    of.by_pattern.hits(hundredths) / of.accesses
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % end
    }
}

#[test]
fn uniform_accesses_hit_as_much_as_fits() {
    let (ghosts, mut random) = (ghosts(), Random(1));
    (0..400_000).for_each(|_| ask(&ghosts, 3, random.below(16_000)));
    for hundredths in [10.0, 40.0, 80.0, 120.0] {
        let (found, expected) = (ratio(&ghosts, 3, hundredths), hundredths / 160.0);
        assert!(
            (found - expected).abs() < 0.05,
            "{hundredths}: {found}, not {expected}"
        );
    }
    let evidence = evidence(&ghosts);
    let of = evidence.of(IoClass(3)).expect("a class");
    assert!(
        (of.accesses - 400_000.0).abs() < 40_000.0,
        "{}",
        of.accesses
    );
    assert!(of.sampled < 60_000, "{} accesses cost a lock", of.sampled);
}

#[test]
fn a_circle_hits_only_as_a_whole() {
    let ghosts = ghosts();
    (0..80_000).for_each(|n| ask(&ghosts, 1, n % 8000));
    assert!(
        ratio(&ghosts, 1, 70.0) < 0.05,
        "{}",
        ratio(&ghosts, 1, 70.0)
    );
    assert!(
        ratio(&ghosts, 1, 90.0) > 0.80,
        "{}",
        ratio(&ghosts, 1, 90.0)
    );
}

#[test]
fn classes_do_not_disturb_each_other() {
    let (ghosts, mut random) = (ghosts(), Random(2));
    for n in 0..300_000 {
        ask(&ghosts, 7, n);
        if n % 10 == 0 {
            ask(&ghosts, 2, random.below(500));
        }
    }
    assert_eq!(ratio(&ghosts, 7, 200.0), 0.0, "a scan");
    assert!(ratio(&ghosts, 2, 5.0) > 0.9, "{}", ratio(&ghosts, 2, 5.0));
}

#[test]
fn memory_is_fixed() {
    let ghosts = ghosts();
    for class in 0..CLASSES as u8 {
        (0..20_000).for_each(|n| ask(&ghosts, class, n));
    }
    let lists = ghosts
        .ghosts
        .iter()
        .map(|one| one.lock().chunks.capacity() as u64);
    let bytes = lists.sum::<u64>() * size_of::<Sampled>() as u64;
    let fixed = (CLASSES * size_of::<Mutex<Ghost>>()) as u64;
    assert!(bytes + fixed <= Ghosts::MEMORY_BYTES, "{bytes} + {fixed}");
    for class in 0..CLASSES as u8 {
        let of = ratio(&ghosts, class, 200.0);
        assert_eq!(of, 0.0, "class {class}");
    }
}

#[test]
fn the_sample_follows_a_load_that_shrinks() {
    let (ghosts, mut random) = (ghosts(), Random(3));
    (0..3_000_000).for_each(|n| ask(&ghosts, 1, n));
    let before = ghosts.thresholds[1].load(Relaxed);
    assert!(part(before) < 0.12, "{}", part(before));
    // 300 chunks are left, of which the sample has few: two hours of that.
    let mut now = 0;
    for _ in 0..1440 {
        now += 5 * SECOND;
        ghosts.step(UnixNanos(now));
        (0..100).for_each(|_| ask(&ghosts, 1, random.below(300)));
    }
    let after = ghosts.thresholds[1].load(Relaxed);
    assert!(
        part(after) > 4.0 * part(before),
        "{} {}",
        part(before),
        part(after)
    );
    assert!(ratio(&ghosts, 1, 5.0) > 0.8, "{}", ratio(&ghosts, 1, 5.0));
}

#[test]
fn counts_fade_in_use_and_not_when_idle() {
    let ghosts = ghosts();
    let mut now = 0;
    let mut steps = |seconds: i64, asks: bool| {
        for _ in 0..seconds {
            now += SECOND;
            ghosts.step(UnixNanos(now));
            if asks {
                ask(&ghosts, 1, 5);
            }
        }
        evidence(&ghosts)
    };
    let begun = steps(500, true);
    assert_eq!(
        begun.observed_ns,
        498 * SECOND as u64,
        "from the first access on"
    );
    let accesses = |of: &Evidence| of.classes[1].accesses;
    let all = accesses(&begun);
    let idle = steps(7200, false);
    assert_eq!(
        (accesses(&idle), idle.window_ns),
        (all, begun.window_ns + SECOND as u64)
    );
    let later = steps(600, true);
    assert!(
        accesses(&later) < 0.8 * (all + 600.0),
        "{}",
        accesses(&later)
    );
    assert_eq!(later.classes[1].sampled, 1099, "the evidence is all that");
    // A clock that jumps is no time in use.
    now += 1_000_000 * SECOND;
    ghosts.step(UnixNanos(now));
    assert!(evidence(&ghosts).observed_ns <= later.observed_ns + STEP_NS_MAX);
}

#[test]
fn what_streams_bring_counts_apart() {
    let ghosts = ghosts();
    let class = IoClass(4);
    ghosts.note_read(&name(0), class, &read(false));
    for _ in 0..2 {
        for n in 0..100 {
            ghosts.note_read(&name(n), class, &read(false));
        }
    }
    ghosts.note_stored(&name(1000), class, CHUNK);
    ghosts.note_read(&name(1000), class, &read(true));
    ghosts.note_read(&name(1000), class, &read(false));
    let evidence = ghosts.evidence(true, |of| of.io.0.into());
    let of = evidence.of(class).expect("a class");
    assert_eq!(
        of.otherwise.hits(200.0),
        101.0,
        "streams, and what was stored"
    );
    assert_eq!(of.by_pattern.hits(200.0), 1.0);
    assert_eq!((of.held_hundredths, of.recent), (4.0, (202.0, 0.0)));
    let again = self::evidence(&ghosts);
    assert_eq!(again.classes[4].recent, (0.0, 0.0));
    assert_eq!(again.classes[4].accesses, 202.0);
    ghosts.clear();
    assert_eq!(self::evidence(&ghosts).sampled(), 0);
    assert_eq!(CacheClass::new(Kind::Data, class).io, class);
}

#[test]
fn times_of_pool_and_tier_are_measured() {
    let ghosts = ghosts();
    let of = |is_hit, ns| Access {
        is_hit,
        ns,
        ..read(true)
    };
    let class = IoClass(1);
    ghosts.note_read(&name(0), class, &of(false, 1));
    for n in 0..10 {
        ghosts.note_read(&name(n), class, &of(false, 8_000_000));
        ghosts.note_read(&name(n), class, &of(true, 100_000));
    }
    let evidence = evidence(&ghosts);
    assert_eq!(evidence.classes[1].pool_ns, Some(8_000_000.0));
    assert_eq!(evidence.tier_ns, Some(100_000.0));
    assert_eq!(evidence.classes[1].hits, 10.0);
}

#[test]
fn a_sample_without_the_chunks_in_use_is_widened() {
    let ghosts = ghosts();
    (0..1_000_000).for_each(|n| ask(&ghosts, 1, n));
    ghosts.thresholds[1].store(u64::MAX >> 20, Relaxed);
    let mut now = 0;
    let mut random = Random(4);
    // A day with a hundred chunks.
    for _ in 0..8640 {
        now += 10 * SECOND;
        ghosts.step(UnixNanos(now));
        (0..10).for_each(|_| ask(&ghosts, 1, random.below(100)));
    }
    assert!(ratio(&ghosts, 1, 5.0) > 0.9, "{}", ratio(&ghosts, 1, 5.0));
}
