//! Fills directory listings. `snapshot_files` calls this.
//!
//! Invariant: a node's look-up is counted exactly if the kernel gets its line.

use super::appearance::{of_item, type_of};
use super::items::{Item, Items, Missing};
use super::places::{FOR_EVER, NOT_AT_ALL, Place, disks_node};
use super::views::Target;
use fuse::{Full, Listing, Node};
use std::sync::Arc;
use std::time::Duration;

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
        let mut at = first;
        while let Some((number, name, item)) = entries.from(at) {
            at = number + 1;
            let next = Listing::position_after(number);
            match (listing.with_nodes(), &item) {
                (false, Item::Entry(entry)) => {
                    let (inode, _) = place.inode_of(entry);
                    listing.add(&name, inode, type_of(&entry.kind), next)?;
                }
                (false, _) => {
                    let attributes = of_item(place, &name, &item);
                    listing.add(&name, attributes.inode, attributes.mode, next)?;
                }
                (true, _) => add_node(items, place, (number, &name, &item), listing)?,
            }
        }
        Ok(())
    };
    // The kernel asks again for entries that did not fit.
    let _ = add_all();
    Ok(())
}

fn add_node(
    items: &Items,
    place: &Arc<Place>,
    (number, name, item): (usize, &[u8], &Item),
    listing: &mut Listing<'_>,
) -> Result<(), Full> {
    let next = Listing::position_after(number);
    let node = node(items, place, (number, name, item));
    let added = listing.add_node(name, &node, next);
    if added.is_err() && !matches!(item, Item::Above(Target::Disks(_))) {
        items.places.forget(node.node, 1);
    }
    added
}

/// Returns an entry of `place` as a node and counts one look-up.
pub(super) fn node(
    items: &Items,
    place: &Arc<Place>,
    (number, name, item): (usize, &[u8], &Item),
) -> Node {
    Node {
        node: match item {
            Item::Above(Target::Disks(which)) => disks_node(*which),
            _ => items.places.look_up(place, number),
        },
        attributes: of_item(place, name, item),
        valid: valid(item),
    }
}

/// Returns how long the kernel may cache an item's attributes and name.
pub(super) fn valid(item: &Item) -> Duration {
    match item {
        Item::Above(_) => NOT_AT_ALL,
        Item::Single(_) | Item::Entry(_) => FOR_EVER,
    }
}
