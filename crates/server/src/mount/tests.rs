use super::places::{Contents, Place, Places, Seed};
use fuse::NodeId;
use std::sync::Arc;

#[test]
fn places_are_counted() {
    let place = |node: u64| Place {
        node: NodeId(node),
        inode: node,
        parent_inode: 1,
        seed: Seed::default(),
        top_seed: Seed::default(),
        snapshot: None,
        contents: Contents::View(0),
    };
    let places = Places::new(place(1));
    let below = Arc::new(place(1 << 24 | 7));
    let first = places.look_up(&below, 3);
    let second = places.look_up(&below, 4);
    assert_eq!(places.look_up(&below, 3), first);
    assert_eq!(places.of(first).unwrap().1, 3);
    assert_eq!(places.of(second).unwrap().0.node, below.node);
    places.forget(first, 1);
    places.forget(second, 1);
    assert!(places.at(below.node).is_some());
    places.forget(first, 1);
    assert!(places.at(below.node).is_none());
    assert!(places.of(first).is_none());
    // Gives back more look-ups than there were, and those of an unknown node.
    places.forget(first, 9);
    assert_ne!(places.look_up(&below, 3), first);
    // The top stays when all look-ups in it are given back.
    let top = places.at(NodeId::ROOT).unwrap();
    let entry = places.look_up(&top, 0);
    places.forget(entry, 1);
    assert!(places.at(NodeId::ROOT).is_some());
}
