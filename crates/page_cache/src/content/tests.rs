use super::*;
use crate::Place;
use units::Fingerprint;

fn classes() -> ClassOccupancy {
    ClassOccupancy::new(1)
}

fn shard() -> ContentShard {
    ContentShard::new(100, 100)
}

fn run(len: usize) -> Arc<Run> {
    Arc::new(Run::alone(&vec![1; len]))
}

fn identity_of(fingerprint: &Fingerprint) -> Identity {
    Identity::of(fingerprint, SHARDS_MIN)
}

fn at(chunk: u64) -> Place {
    Place { object: 1, chunk }
}

/// Every bit of the last fourteen bytes matters, except those that choose the shard.
#[test]
fn contents_that_differ_in_one_bit_are_distinguished() {
    let base = Fingerprint([0x5a; 32]);
    let mut shard = shard();
    shard.insert(&identity_of(&base), run(4096), Use::Demand.into(), 0);
    let mut compared = 0;
    for bit in 0..256 {
        let mut other = base;
        other.0[bit / 8] ^= 1 << (bit % 8);
        let identity = identity_of(&other);
        let same_shard = identity.shard == identity_of(&base).shard;
        compared += usize::from(!same_shard || shard.find(&identity).is_none());
    }
    assert_eq!(compared, 88);
    assert!(shard.find(&identity_of(&base)).is_some());
}

#[test]
fn an_alias_is_of_its_place_only() {
    let mut shard = shard();
    let identity = identity_of(&Fingerprint([1; 32]));
    let frame = shard
        .insert(&identity, run(4096), Use::Demand.into(), 0)
        .expect("room");
    let alias = shard.add_alias(frame, at(7)).expect("room");
    assert_eq!(shard.frame_of(alias, at(7)), Some(frame));
    assert_eq!(shard.frame_of(alias, at(8)), None);
    assert_eq!(
        shard.frame_of(
            alias,
            Place {
                object: 2,
                chunk: 7
            }
        ),
        None
    );
    shard.remove_alias(alias);
    assert_eq!(shard.frame_of(alias, at(7)), None);
}

/// Aliases are added and removed in any order. The oldest is always the one that was added first.
#[test]
fn the_ring_of_aliases_keeps_its_order() {
    let mut shard = shard();
    let identity = identity_of(&Fingerprint([1; 32]));
    let frame = shard
        .insert(&identity, run(4096), Use::Demand.into(), 0)
        .expect("room");
    let (mut model, mut seed) = (Vec::<(u32, Place)>::new(), 1u64);
    for step in 0..5000 {
        seed = crate::mix(seed + 1);
        if model.len() < 12 && !seed.is_multiple_of(3) || model.is_empty() {
            let alias = shard.add_alias(frame, at(step)).expect("room");
            model.push((alias, at(step)));
        } else {
            let (alias, place) = model.remove(seed as usize % model.len());
            assert_eq!(shard.frame_of(alias, place), Some(frame));
            shard.remove_alias(alias);
        }
        assert_eq!(
            shard.oldest_place(frame),
            model.first().map(|(_, place)| *place)
        );
        assert_eq!(shard.aliases(frame) as usize, model.len());
        assert_eq!(shard.counters.places as usize, model.len());
        let shared = model.len().saturating_sub(1) as u64 * 4096;
        assert_eq!(shard.counters.bytes_shared, shared);
    }
    let mut places: Vec<_> = model.iter().map(|(_, place)| *place).collect();
    let mut found = shard.places_of(1);
    places.sort();
    found.sort();
    assert_eq!(found, places);
}

/// The policy may name a frame before, while and after another thread evicts it.
#[test]
fn a_slot_is_free_when_frame_and_policy_are_done_with_it() {
    let identity = identity_of(&Fingerprint([1; 32]));
    let mut shard = shard();
    let insert = |shard: &mut ContentShard| {
        let frame = shard.insert(&identity, run(5000), Use::Demand.into(), 0);
        frame.expect("room")
    };
    let first = insert(&mut shard);
    // Evicted by the policy alone.
    assert!(shard.begin_eviction(first, true));
    assert!(shard.find(&identity).is_none());
    assert!(shard.end_eviction(first, &classes()).is_some());
    assert_eq!(insert(&mut shard), first);
    // Evicted by another thread; the policy still counts it.
    assert!(shard.begin_eviction(first, false));
    assert!(shard.end_eviction(first, &classes()).is_some());
    assert_eq!(shard.cool(first).bytes, 6144);
    let second = insert(&mut shard);
    assert_ne!(second, first);
    assert!(!shard.begin_eviction(first, true));
    assert!(shard.begin_eviction(second, true) && shard.end_eviction(second, &classes()).is_some());
    let (third, fourth) = (insert(&mut shard), insert(&mut shard));
    assert!([(first, second), (second, first)].contains(&(third, fourth)));
    // Evicted by both at once.
    assert!(shard.begin_eviction(third, false));
    assert!(!shard.begin_eviction(third, true));
    assert!(shard.end_eviction(third, &classes()).is_some());
    assert_eq!(insert(&mut shard), third);
}

/// A demand counts once in a tick.
#[test]
fn only_demands_make_a_frame_hot() {
    let mut shard = shard();
    let identity = identity_of(&Fingerprint([1; 32]));
    let frame = shard.insert(&identity, run(4096), Use::Prefetch.into(), 0);
    let frame = frame.expect("room");
    let mut heat_after = |uses: &[(Use, u8)]| {
        uses.iter()
            .for_each(|(u, tick)| drop(shard.touch(frame, (*u).into(), &classes(), *tick)));
        let heat = shard.cool(frame).hits;
        while shard.cool(frame).hits > 0 {}
        heat
    };
    use Use::{Demand, Prefetch, Scan};
    assert_eq!(heat_after(&[(Scan, 0), (Prefetch, 1), (Scan, 2)]), 0);
    assert_eq!(heat_after(&[(Demand, 0); 9]), 0, "what it was fetched for");
    assert_eq!(heat_after(&[(Demand, 1); 9]), 1);
    assert_eq!(
        heat_after(&[(Demand, 1), (Demand, 2), (Scan, 3), (Demand, 4)]),
        2
    );
    let always: Vec<_> = (5..20).map(|tick| (Demand, tick % 8)).collect();
    assert_eq!(heat_after(&always), 3);
}
