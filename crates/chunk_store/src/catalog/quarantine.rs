//! The quarantine in the catalog: damaged regions and containers, so that every later writer stores
//! their chunks again. The pool reads it, commits of sessions update it.
//!
//! Invariant: the key contains the whole record. The value is empty, or says that a repair found
//! nothing lost because of the place; only `status` reads that. Unknown values are ignored. A
//! program that does not know these keys preserves them.

use super::map::{Edit, visit};
use crate::container::RegionPlace;
use crate::error::{Result, StoreError};
use format::bytes::{FormatError, Reader, Writer};
use format::map_node::MapNode;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use units::{ContainerId, Fingerprint};

const TAG: u8 = b'd';

/// Returns the key of a region or of a whole container in quarantine.
pub fn quarantine_key(place: RegionPlace) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(TAG)
        .bytes(&place.container.0.to_be_bytes())
        .bytes(&place.sector.to_be_bytes());
    w.0
}

/// Decodes a key. Returns `None` for keys of other kinds.
fn parse(key: &[u8]) -> Result<Option<RegionPlace>> {
    let decode = || -> std::result::Result<Option<RegionPlace>, FormatError> {
        let mut k = Reader::new("note of damage", key);
        if k.u8()? != TAG {
            return Ok(None);
        }
        let container = ContainerId(u64::from_be_bytes(k.array()?));
        let sector = u32::from_be_bytes(k.array()?);
        k.finish()?;
        Ok(Some(RegionPlace { container, sector }))
    };
    decode().map_err(|e| StoreError::corruption(e.what, "catalog", e))
}

/// Value of a place whose damage affects nothing that is referenced.
const HARMLESS: [u8; 1] = [1];

/// Reads the places whose damage affected nothing when a repair last looked.
pub fn read_harmless(
    catalog: Option<Fingerprint>,
    load: &mut dyn FnMut(&Fingerprint) -> Result<MapNode>,
) -> Result<BTreeSet<RegionPlace>> {
    let mut places = BTreeSet::new();
    let _ = visit(catalog, &[TAG], load, &mut |key, value| match parse(key)? {
        Some(place) => {
            if value == HARMLESS {
                places.insert(place);
            }
            Ok(ControlFlow::Continue(()))
        }
        None => Ok(ControlFlow::Break(())),
    })?;
    Ok(places)
}

/// Returns the edits that record that the damage of these places affects nothing.
pub fn harmless_edits<'p>(places: impl IntoIterator<Item = &'p RegionPlace>) -> Vec<Edit> {
    let edit = |place: &RegionPlace| Edit {
        key: quarantine_key(*place),
        value: Some(HARMLESS.to_vec()),
    };
    places.into_iter().map(edit).collect()
}

/// Reads all recorded places.
pub fn read_quarantine(
    catalog: Option<Fingerprint>,
    load: &mut dyn FnMut(&Fingerprint) -> Result<MapNode>,
) -> Result<BTreeSet<RegionPlace>> {
    let mut places = BTreeSet::new();
    let _ = visit(catalog, &[TAG], load, &mut |key, _| match parse(key)? {
        Some(place) => {
            places.insert(place);
            Ok(ControlFlow::Continue(()))
        }
        None => Ok(ControlFlow::Break(())),
    })?;
    Ok(places)
}

/// Returns the edits that change the record from `noted` to `wanted`.
pub fn quarantine_edits(
    noted: &BTreeSet<RegionPlace>,
    wanted: &BTreeSet<RegionPlace>,
) -> Vec<Edit> {
    let edit = |place: &RegionPlace, value| Edit {
        key: quarantine_key(*place),
        value,
    };
    let removed = noted.difference(wanted).map(|place| edit(place, None));
    let added = wanted.difference(noted);
    removed
        .chain(added.map(|place| edit(place, Some(Vec::new()))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::WriterId;

    #[test]
    fn keys_come_back_and_sort_between_containers_and_snapshots() {
        let places =
            [(1, 0), (1, 7), (2, 1), (300, 65_535)].map(|(sequence, sector)| RegionPlace {
                container: ContainerId::new(WriterId(1), sequence),
                sector,
            });
        let keys = places.map(quarantine_key);
        assert!(keys.is_sorted());
        assert!(
            keys.iter()
                .all(|key| key[..] > b"d"[..] && key[..] < b"s"[..])
        );
        for (place, key) in places.iter().zip(&keys) {
            assert_eq!(parse(key).unwrap(), Some(*place));
            assert!(parse(&key[..12]).is_err());
        }
        assert_eq!(parse(b"c12345678").unwrap(), None);
    }

    #[test]
    fn edits_are_the_difference() {
        let place = |sector| RegionPlace {
            container: ContainerId(5),
            sector,
        };
        let (noted, wanted) = ([place(1), place(2)].into(), [place(2), place(3)].into());
        let edits: Vec<_> = quarantine_edits(&noted, &wanted)
            .into_iter()
            .map(|edit| (parse(&edit.key).unwrap().unwrap().sector, edit.value))
            .collect();
        assert_eq!(edits, [(1, None), (3, Some(Vec::new()))]);
    }
}
