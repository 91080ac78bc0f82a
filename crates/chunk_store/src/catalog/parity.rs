//! The parity of new containers, if it was changed since the pool was created. The pool calls this.
//!
//! Invariant: there is one key. A program that does not know it preserves it and stores containers
//! without parity.

use super::map::{Edit, visit};
use crate::error::Result;
use format::map_node::MapNode;
use format::parity::PARITY_PERCENT_MAX;
use std::ops::ControlFlow;
use units::Fingerprint;

const KEY: &[u8] = b"parity";
const VERSION: u8 = 1;

/// Returns the edit that sets it, percent.
pub fn parity_edit(percent: u8) -> Edit {
    Edit {
        key: KEY.to_vec(),
        value: Some(vec![VERSION, percent]),
    }
}

/// Reads it, percent. Returns `None` if it is absent or in an unknown version.
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
