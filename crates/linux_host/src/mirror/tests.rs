use super::*;
use duet::{DuetOptions, Mask, Scope, Session};

const KEY: Key = Key {
    inode: 7,
    root: 5,
    chunk: 2,
    device: 1,
    generation: 9,
};

fn mirror() -> (Mirror, Arc<Duet>) {
    let duet = Duet::new(DuetOptions {
        items_max: 1 << 16,
        seed: 1,
    });
    (Mirror::new(Arc::clone(&duet)), duet)
}

fn session(duet: &Arc<Duet>) -> Session {
    let mask = Mask::EXISTS.and(Mask::MODIFIED).unwrap();
    duet.register(Space::Pages, Scope::Everything, mask, 0)
        .unwrap()
}

fn fetched(session: &Session, mirror: &Mirror) -> Vec<(u64, Events)> {
    let mut items = Vec::new();
    while !session.is_replayed() || session.pending() > 0 {
        session.fetch(mirror, 1000, &mut items);
    }
    let mut found: Vec<_> = items.iter().map(|i| (i.page.index, i.events)).collect();
    found.sort_by_key(|item| item.0);
    found
}

#[test]
fn events_reach_a_session_and_late_ones_get_a_replay() {
    let (mut mirror, duet) = mirror();
    let early = session(&duet);
    assert_eq!(fetched(&early, &mirror), []);
    let bits = Bits {
        seen_present: 0b111,
        present: 0b011,
        seen_dirty: 0b110,
        dirty: 0b010,
    };
    let (id, moved) = mirror.apply(&KEY, &bits);
    assert_eq!((moved.added, moved.dirtied, moved.removed), (2, 1, 0));
    let both = Events::ADDED.and(Events::DIRTIED);
    let state = vec![(128, Events::ADDED), (129, both)];
    assert_eq!(fetched(&early, &mirror), state);
    assert_eq!(fetched(&session(&duet), &mirror), state);
    assert_eq!(mirror.page(id, 129), (true, true));
    assert_eq!(mirror.page(id, 130), (false, false));
    // The same once more is no news.
    assert_eq!(mirror.apply(&KEY, &bits).1, Moved::default());
    assert_eq!(fetched(&early, &mirror), []);
}

#[test]
fn a_removed_page_is_not_dirty() {
    let (mut mirror, _) = mirror();
    let all = u64::MAX;
    let dirty = Bits {
        seen_present: all,
        present: all,
        seen_dirty: all,
        dirty: all,
    };
    let (id, _) = mirror.apply(&KEY, &dirty);
    let removed = Bits {
        seen_present: 1,
        ..Bits::default()
    };
    assert_eq!(mirror.apply(&KEY, &removed).1.flushed, 1);
    assert_eq!(mirror.page(id, 128), (false, false));
    assert_eq!(mirror.cached_pages(id), 63);
    // A scan that finds nothing of the file empties it.
    assert_eq!(mirror.clear_others(id, &BTreeSet::new()).removed, 63);
    assert_eq!(mirror.files().count(), 0);
    mirror.prune();
    assert_eq!(mirror.file(0), None);
}

#[test]
fn clean_pages_of_a_range() {
    let mut mirror = Mirror::new(Duet::new(DuetOptions {
        items_max: 1024,
        seed: 0,
    }));
    let id = FileId {
        device: 1,
        root: 0,
        inode: 2,
        generation: 3,
    };
    let state = |present, dirty| ChunkState { present, dirty };
    mirror.assign(id, 0, state(u64::MAX, 0b1));
    mirror.assign(id, 2, state(0b110, 0));
    for (pages, clean) in [
        (0..64, 63),
        (1..64, 63),
        (0..1, 0),
        (10..20, 10),
        (60..130, 5),
        (128..192, 2),
        (129..130, 1),
        (5..5, 0),
        (200..300, 0),
    ] {
        assert_eq!(mirror.clean_pages(id, pages.clone()), clean, "{pages:?}");
    }
}
