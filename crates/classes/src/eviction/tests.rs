use super::*;

const PRIORITY: [u8; 5] = [50, 0, 10, 10, 220];

/// Classes 0 to 4 with [`PRIORITY`], class 5 pinned, class 6 with a share of 10 %, 7 without.
fn settings() -> [ClassSettings; CLASSES] {
    let mut settings = [ClassSettings {
        priority: Priority::Evictable(100),
        share: Share::ALL,
    }; CLASSES];
    for (class, priority) in PRIORITY.into_iter().enumerate() {
        settings[class].priority = Priority::Evictable(priority);
    }
    settings[5].priority = Priority::Pinned;
    settings[6].share = Share::from_hundredths(10).expect("a share");
    settings[7].share = Share::NONE;
    settings
}

fn engine(capacity_blocks: u32, mode: Mode) -> Eviction<u64> {
    let set_up = SetUp {
        capacity_blocks,
        mode,
        seed: 1,
    };
    Eviction::new(set_up, &settings())
}

fn fill(engine: &mut Eviction<u64>, keys: std::ops::Range<u64>, class: u8) {
    for key in keys {
        engine.admit(key, IoClass(class), false);
    }
}

#[test]
fn the_least_important_class_evicts_first_until_it_is_empty() {
    let mut engine = engine(4, Mode::Strict);
    fill(&mut engine, 0..2, 0);
    fill(&mut engine, 2..4, 2);
    assert_eq!(engine.admit(10, IoClass(1), false), Admission::Evicted(0));
    assert_eq!(engine.admit(11, IoClass(1), false), Admission::Evicted(1));
    assert_eq!(engine.admit(12, IoClass(1), false), Admission::Evicted(2));
    let refused = Admission::Refused(Refusal::MoreImportant);
    assert_eq!(engine.admit(13, IoClass(0), false), refused);
    assert_eq!(
        (engine.len_of(IoClass(1)), engine.len_of(IoClass(2))),
        (3, 1)
    );
}

#[test]
fn equally_important_classes_are_one_lru() {
    let mut engine = engine(4, Mode::Strict);
    fill(&mut engine, 0..1, 3);
    fill(&mut engine, 1..3, 2);
    fill(&mut engine, 3..4, 3);
    assert!(engine.hit(&0, IoClass(3)));
    assert_eq!(engine.admit(9, IoClass(3), false), Admission::Evicted(1));
    assert_eq!(engine.admit(10, IoClass(3), false), Admission::Evicted(2));
    assert_eq!(engine.admit(11, IoClass(2), false), Admission::Evicted(3));
}

#[test]
fn pinned_blocks_leave_only_for_their_own_class() {
    let mut engine = engine(2, Mode::Strict);
    fill(&mut engine, 0..2, 5);
    let refused = Admission::Refused(Refusal::MoreImportant);
    assert_eq!(engine.admit(5, IoClass(1), false), refused);
    assert_eq!(engine.admit(6, IoClass(5), false), Admission::Evicted(0));
}

#[test]
fn a_class_over_its_share_evicts_its_own() {
    let mut engine = engine(20, Mode::Strict);
    fill(&mut engine, 0..2, 6);
    // There is room, but not for this class.
    assert_eq!(engine.admit(2, IoClass(6), false), Admission::Evicted(0));
    assert_eq!(
        engine.admit(3, IoClass(7), false),
        Admission::Refused(Refusal::NoShare)
    );
    assert_eq!(engine.len(), 2);
}

#[test]
fn low_priorities_enter_only_without_pressure() {
    let mut engine = engine(2, Mode::Strict);
    assert_eq!(
        engine.admit(0, IoClass(4), true),
        Admission::Refused(Refusal::Pressure)
    );
    assert_eq!(engine.admit(0, IoClass(4), false), Admission::Free);
    assert_eq!(engine.admit(1, IoClass(0), true), Admission::Free);
    // Full: they may still replace their own kind.
    assert_eq!(engine.admit(2, IoClass(4), false), Admission::Evicted(0));
    assert_eq!(engine.tally(IoClass(4)).refused, 1);
}

#[test]
fn smaller_shares_take_effect_as_others_come() {
    let mut engine = engine(10, Mode::Strict);
    fill(&mut engine, 0..10, 5);
    let mut smaller = settings();
    smaller[5].share = Share::from_hundredths(50).expect("a share");
    engine.set_settings(&smaller);
    // Pinned, but above its share.
    assert_eq!(engine.admit(20, IoClass(4), false), Admission::Evicted(0));
    let mut evicted = Vec::new();
    while let Some(key) = engine.evict_excess() {
        evicted.push(key);
    }
    assert_eq!(evicted, [1, 2, 3, 4]);
    assert_eq!(engine.len_of(IoClass(5)), 5);
}

#[test]
fn a_hit_moves_a_block_to_the_class_of_the_request() {
    let mut engine = engine(2, Mode::Strict);
    fill(&mut engine, 0..2, 0);
    assert!(engine.hit(&0, IoClass(1)));
    assert_eq!(engine.admit(5, IoClass(0), false), Admission::Evicted(1));
    assert_eq!(
        (engine.len_of(IoClass(0)), engine.len_of(IoClass(1))),
        (1, 1)
    );
    assert_eq!(engine.tally(IoClass(1)).hits, 1);
}

#[test]
fn in_proportion_large_classes_give_more() {
    let mut engine = engine(4000, Mode::Proportional);
    fill(&mut engine, 0..3000, 0);
    fill(&mut engine, 3000..4000, 2);
    fill(&mut engine, 10_000..11_000, 1);
    let of = |class| engine.tally(IoClass(class)).evicted;
    assert_eq!(of(0) + of(2), 1000);
    assert!((600..=800).contains(&of(0)), "{}", of(0));
    // Neither gives for a class that is less important than both.
    assert_eq!(
        engine.admit(1, IoClass(4), false),
        Admission::Refused(Refusal::MoreImportant)
    );
}

#[test]
fn removed_blocks_make_room() {
    let mut engine = engine(2, Mode::Strict);
    fill(&mut engine, 0..2, 1);
    assert!(engine.remove(&0) && !engine.remove(&0));
    assert_eq!(engine.admit(7, IoClass(4), false), Admission::Free);
    assert_eq!(engine.oldest(IoClass(1)), Some(1));
    assert!(engine.contains(&1) && engine.is_full());
}

#[test]
fn a_cache_without_blocks_refuses_everything() {
    let mut engine = engine(0, Mode::Strict);
    assert_eq!(
        engine.admit(7, IoClass(1), false),
        Admission::Refused(Refusal::NoShare)
    );
    assert!(!engine.hit(&7, IoClass(255)) && engine.is_empty());
}
