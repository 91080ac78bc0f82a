//! The catalog: names to objects, and the inventory of containers; a Merkle B+ tree (`map`).
//!
//! Invariant: a change copies the path from leaf to root; old roots stay valid. Keys: `s` + time +
//! id for snapshots, `c` + container id for the inventory. Called by pool, recovery and check.

mod inventory;
mod map;

pub use inventory::InventoryEntry;
pub(crate) use inventory::{inventory_key, parse_inventory};
pub(crate) use map::{Edit, Nodes, apply, visit, visit_readable};
