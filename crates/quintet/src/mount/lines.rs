//! The lines of a directory's listing.
//!
//! Invariant: a node is counted as looked up exactly when its line went out.

use super::appearance::{of_item, type_of};
use super::items::{Item, Items, Missing};
use super::places::{FOR_EVER, Place, VOLUMES_NODE};
use super::views::Target;
use fuse::{Full, Listing, Node};
use std::sync::Arc;

/// Adds the entries of `place` from position `from`, as many as fit.
pub(super) fn fill(
    items: &Items,
    place: &Arc<Place>,
    from: u64,
    listing: &mut Listing<'_>,
) -> Result<(), Missing> {
    let entries = items.entries(place)?;
    let mut add_all = || -> Result<(), Full> {
        let first = listing.add_dots(from, place.inode, place.parent_inode)?;
        for number in first.. {
            let Some((name, item)) = entries.get(number) else {
                break;
            };
            let next = Listing::position_after(number);
            match (listing.with_nodes(), &item) {
                (false, Item::Entry(entry)) => {
                    let (inode, _) = place.inode_of(entry);
                    listing.add(&name, inode, type_of(&entry.kind), next)?;
                }
                (false, _) => {
                    let attributes = of_item(&items.views, place, &name, &item);
                    listing.add(&name, attributes.inode, attributes.mode, next)?;
                }
                (true, _) => add_node(items, place, (number, &name, &item), listing)?,
            }
        }
        Ok(())
    };
    // The kernel asks again for what did not fit.
    let _ = add_all();
    Ok(())
}

fn add_node(
    items: &Items,
    place: &Arc<Place>,
    (number, name, item): (usize, &[u8], &Item),
    listing: &mut Listing<'_>,
) -> Result<(), Full> {
    let mut node = Node {
        node: VOLUMES_NODE,
        attributes: of_item(&items.views, place, name, item),
        valid: FOR_EVER,
    };
    let next = Listing::position_after(number);
    if matches!(item, Item::Above(Target::Volumes)) {
        return listing.add_node(name, &node, next);
    }
    node.node = items.places.look_up(place, number);
    let added = listing.add_node(name, &node, next);
    if added.is_err() {
        items.places.forget(node.node, 1);
    }
    added
}
