//! Files that move into a scope and out of it, while their pages come and leave.

use crate::world;

use duet::{Events, Mask, Members, Page, Position, Present, Scope, Space};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use world::{Reported, World, drain, page};

struct Tree(Mutex<BTreeSet<u64>>);

struct InTree(Arc<Tree>);

impl Members for InTree {
    fn contains(&self, object: u64, _: u32) -> bool {
        self.0.0.lock().contains(&object)
    }
}

#[test]
fn files_move_into_a_scope_and_out_of_it() {
    let world = World::new(1 << 20);
    let tree = Arc::new(Tree(Mutex::new([1, 2].into())));
    let mask = Mask::EXISTS.and(Mask::MODIFIED).expect("two pairs");
    let scope = Scope::Snapshot(Box::new(InTree(Arc::clone(&tree))));
    let session = world.duet.register(Space::Pages, scope, mask, 0);
    let (session, mut reported) = (session.expect("the first"), Reported::default());
    let mut hear = || -> BTreeSet<u64> {
        for item in drain(&session, &world) {
            reported.hear(&item);
        }
        assert!(reported.dirty.is_subset(&reported.cached));
        reported.cached.iter().map(|p| p.object).collect()
    };
    for object in 0..4 {
        (0..10).for_each(|n| world.add(page(object, n)));
        world.set_dirty(page(object, 3), true);
    }
    assert_eq!(hear(), [1, 2].into());
    session.moved(3, true, &world);
    assert_eq!(hear(), [1, 2, 3].into());
    // When the file leaves, some pages are still pending, some leave at the same time, some come
    // later.
    world.remove(page(2, 1));
    world.add(page(2, 77));
    session.moved(2, false, &world);
    world.remove(page(2, 2));
    world.add(page(2, 78));
    assert_eq!(hear(), [1, 3].into());
    assert!(!session.pending() > 0 || hear() == [1, 3].into());
    session.moved(2, true, &world);
    assert_eq!(hear(), [1, 2, 3].into());
    let done = duet::Work { object: 2, part: 0 };
    assert!(session.set_done(done) && session.check_done(done));
    // The number is reused for another file, which is outside.
    tree.0.lock().remove(&2);
    (0..80).for_each(|n| world.remove(page(2, n)));
    assert_eq!(hear(), [1, 3].into());
    world.duet.deleted(Space::Pages, 2);
    assert!(!session.check_done(done));
    world.add(page(2, 5));
    assert_eq!(hear(), [1, 3].into());
}

/// Another thread evicts a page while its file leaves the scope.
#[test]
fn what_goes_while_its_file_leaves_is_reported() {
    struct Meanwhile<'a>(&'a World);
    impl Present for Meanwhile<'_> {
        fn replay(
            &self,
            space: Space,
            position: Option<Position>,
            max: usize,
            visit: &mut dyn FnMut(&Page, Events),
        ) -> Option<Position> {
            self.0.replay(space, position, max, visit)
        }
        fn replay_object(&self, space: Space, object: u64, visit: &mut dyn FnMut(&Page, Events)) {
            self.0.remove(page(object, 1));
            self.0.replay_object(space, object, visit);
        }
    }
    let world = World::new(1 << 20);
    let tree = Arc::new(Tree(Mutex::new([1].into())));
    let scope = Scope::Snapshot(Box::new(InTree(tree)));
    let session = world.duet.register(Space::Pages, scope, Mask::EXISTS, 0);
    let (session, mut reported) = (session.expect("the first"), Reported::default());
    (0..3).for_each(|n| world.add(page(1, n)));
    drain(&session, &world).iter().for_each(|item| {
        reported.hear(item);
    });
    assert_eq!(reported.cached.len(), 3);
    session.moved(1, false, &Meanwhile(&world));
    drain(&session, &world).iter().for_each(|item| {
        reported.hear(item);
    });
    assert_eq!(reported.cached, BTreeSet::new());
}
