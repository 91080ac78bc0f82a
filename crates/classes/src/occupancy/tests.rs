use super::*;

/// Classes 0 to 4 with these priorities, class 5 pinned, class 6 with a share of 10 %, 7 without.
fn settings() -> [ClassSettings; CLASSES] {
    let mut settings = [ClassSettings {
        priority: Priority::Evictable(100),
        share: Share::ALL,
    }; CLASSES];
    for (class, priority) in [50, 0, 10, 10, 220].into_iter().enumerate() {
        settings[class].priority = Priority::Evictable(priority);
    }
    settings[5].priority = Priority::Pinned;
    settings[6].share = Share::from_hundredths(10).expect("a share");
    settings[7].share = Share::NONE;
    settings
}

fn holding(held: &[(u8, u64)]) -> ClassOccupancy {
    let occupancy = ClassOccupancy::new(1);
    assert!(occupancy.set(20, &settings()));
    for (class, size) in held {
        occupancy.add_clean(IoClass(*class), *size);
    }
    occupancy
}

fn next(occupancy: &ClassOccupancy, need: Need) -> Vec<u8> {
    let classes = occupancy.next_to_evict(need, ClassSet::NONE);
    let classes = classes.map(|classes| classes.iter().map(|class| class.0).collect());
    classes.unwrap_or_default()
}

fn coming(class: u8) -> Need {
    Need::For(IoClass(class))
}

#[test]
fn the_least_important_class_evicts_first_until_it_is_empty() {
    let occupancy = holding(&[(0, 1), (2, 3)]);
    assert_eq!(next(&occupancy, coming(1)), [0]);
    occupancy.take_clean(IoClass(0), 1);
    assert_eq!(next(&occupancy, coming(1)), [2]);
    assert!(next(&occupancy, coming(0)).is_empty(), "all is above it");
    occupancy.take_clean(IoClass(2), 3);
    assert!(next(&occupancy, coming(1)).is_empty());
}

#[test]
fn equally_important_classes_evict_together_and_dirty_data_counts() {
    let occupancy = holding(&[(1, 5), (3, 1)]);
    occupancy.add_dirty(IoClass(2), 1);
    assert_eq!(next(&occupancy, coming(3)), [2, 3]);
    let tried = ClassSet::one(IoClass(2)).and(IoClass(3));
    assert_eq!(occupancy.next_to_evict(coming(3), tried), None);
    assert_eq!(occupancy.held(IoClass(2)), 1);
}

#[test]
fn pinned_classes_evict_for_themselves_and_for_the_budget() {
    let occupancy = holding(&[(5, 9)]);
    assert!(next(&occupancy, coming(1)).is_empty());
    assert!(next(&occupancy, Need::Other).is_empty());
    assert_eq!(next(&occupancy, coming(5)), [5]);
    assert_eq!(next(&occupancy, Need::Budget), [5]);
    occupancy.add_clean(IoClass(1), 1);
    assert_eq!(next(&occupancy, Need::Budget), [1], "pinned ones last");
    assert_eq!(next(&occupancy, Need::Other), [1]);
}

#[test]
fn shares_are_limits_and_a_small_one_is_not_none() {
    let occupancy = holding(&[(6, 1)]);
    let small = IoClass(6);
    assert!(!occupancy.fills_share(small, 1) && occupancy.fills_share(small, 2));
    assert!(occupancy.fills_share(IoClass(7), 1) && !occupancy.keeps(IoClass(7)));
    assert!(!occupancy.fills_share(IoClass(0), u64::MAX));
    occupancy.set(3, &settings());
    assert!(!occupancy.fills_share(small, 0), "a share is one at least");
    assert!(occupancy.keeps(small));
}

#[test]
fn classes_above_their_shares_evict_first_pinned_ones_too() {
    let occupancy = holding(&[(4, 1), (5, 12)]);
    let mut smaller = settings();
    smaller[5].share = Share::from_hundredths(50).expect("a share");
    occupancy.set(20, &smaller);
    assert_eq!(next(&occupancy, coming(4)), [5]);
    assert_eq!(next(&occupancy, Need::Other), [5]);
    occupancy.take_clean(IoClass(5), 2);
    assert_eq!(next(&occupancy, coming(4)), [4]);
    occupancy.add_clean(IoClass(7), 1);
    assert_eq!(next(&occupancy, coming(4)), [7], "it has no share any more");
}

#[test]
fn a_low_class_takes_free_space_or_its_own() {
    let mut of = settings();
    of[8].priority = Priority::Evictable(255);
    of[9].priority = Priority::Evictable(220);
    of[10].priority = Priority::Evictable(199);
    let occupancy = holding(&[(8, 3), (9, 3)]);
    occupancy.set(20, &of);
    assert!(
        next(&occupancy, coming(4)).is_empty(),
        "less important, equal"
    );
    assert_eq!(next(&occupancy, coming(9)), [9]);
    assert_eq!(next(&occupancy, coming(10)), [8], "it is not low");
    occupancy.add_clean(IoClass(7), 1);
    assert_eq!(
        next(&occupancy, coming(4)),
        [7],
        "it has no right to its space"
    );
}

#[test]
fn moves_take_only_from_the_less_important() {
    let occupancy = holding(&[(0, 1), (2, 1), (4, 1)]);
    assert_eq!(next(&occupancy, Need::Above(IoClass(1))), [4]);
    assert!(next(&occupancy, Need::Above(IoClass(4))).is_empty());
    assert!(next(&occupancy, Need::Nothing).is_empty());
}

#[test]
fn equal_classes_share_one_order() {
    let equal = |priority, share| [ClassSettings { priority, share }; CLASSES];
    let occupancy = ClassOccupancy::new(1);
    assert!(!occupancy.are_distinct());
    let half = Share::from_hundredths(50).expect("a share");
    assert!(!occupancy.set(10, &equal(Priority::Evictable(3), Share::ALL)));
    assert!(occupancy.set(10, &equal(Priority::Evictable(3), half)));
    assert!(occupancy.set(10, &equal(Priority::Pinned, Share::ALL)));
    assert_eq!(known(IoClass(64)), IoClass(0));
}
