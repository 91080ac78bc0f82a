//! How much parity new containers get, when that was changed since the pool was made.
//!
//! Invariant: one key. A program that does not know it keeps it, and stores containers without parity.

use super::map::{Edit, visit};
use crate::error::Result;
use format::map_node::MapNode;
use format::parity::PARITY_PERCENT_MAX;
use std::ops::ControlFlow;
use units::Fingerprint;

const KEY: &[u8] = b"parity";
const VERSION: u8 = 1;

/// What makes the catalog say so.
pub fn parity_edit(percent: u8) -> Edit {
    Edit {
        key: KEY.to_vec(),
        value: Some(vec![VERSION, percent]),
    }
}

/// What the catalog says; `None` where it says nothing that this program understands.
pub fn read_parity(
    catalog: Option<Fingerprint>,
    load: &mut dyn FnMut(&Fingerprint) -> Result<MapNode>,
) -> Result<Option<u8>> {
    let mut found = None;
    let _ = visit(catalog, KEY, load, &mut |key, value| {
        if key == KEY
            && let [VERSION, percent] = value
        {
            found = Some((*percent).min(PARITY_PERCENT_MAX));
        }
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}
