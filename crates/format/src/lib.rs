//! Encodes, verifies and versions every stored byte. No I/O, no keys, no clock. The store calls
//! this; the fuzzers call every decoder.
//!
//! Invariant: a decoder never panics on any bytes and never allocates more than they justify. Its
//! results were checked.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod collect;
pub mod config;
pub mod container;
mod container_sizes;
pub mod damage_hints;
pub mod defrag;
pub mod failed_streams;
pub mod host_scrub;
pub mod host_trace;
pub mod index;
pub mod journal;
pub mod journal_place;
pub mod key_slot;
pub mod known;
pub mod map_node;
pub mod mirrored;
pub mod moved;
pub mod parity;
mod parity_shape;
pub mod phase;
pub mod preamble;
pub mod reach;
pub mod reader_hold;
pub mod recipe;
mod record;
pub mod reservations;
pub mod root;
pub mod scrub;
pub mod snapshot;
mod stored;
pub mod tier;
pub mod trace;
pub mod trash_minimum;
pub mod tree;
pub mod volume;
