//! The catalog: maps names to objects and lists the containers, in a Merkle B+ tree (`map`). The
//! pool, recovery and check call this.
//!
//! Invariant: a change copies the path from leaf to root, so old roots stay valid. Keys: `s` with
//! time and id for snapshots, `c` with container id for the inventory, `d` with place for the
//! quarantine, `f` and `g` for the trash, `m` for the minimum trash period, `parity` for the parity
//! of new containers, `v` with a name for volumes, `r` with a volume's id for its reservations.

mod inventory;
mod map;
mod parity;
mod quarantine;
mod trash;

pub use inventory::InventoryEntry;
pub use inventory::{inventory_key, parse_inventory};
pub use map::{Edit, Nodes, apply, holds_key, visit, visit_readable};
pub use parity::{parity_edit, read_parity};
pub use quarantine::{
    harmless_edits, quarantine_edits, quarantine_key, read_harmless, read_quarantine,
};
pub use trash::{Discarded, Forgotten, TrashedContainer};
pub use trash::{Trash, forgotten_key, forgotten_tag_of, parse_trash, read_trash, trash_key};
