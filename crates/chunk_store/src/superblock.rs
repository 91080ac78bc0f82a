//! What makes a pool: config, key slots and roots, each kept twice and under two names.
//!
//! Invariant: a root is put only if its generation is free, and acknowledged only when durable;
//! the put is the fence between writers. One lost or damaged copy never loses the pool. Called by
//! `recovery` and `pool`.

mod keys;
mod roots;
mod secrets;

pub use keys::{NewSecret, SlotInfo};
pub use keys::{add_slot, forget_slots, heal_slots, list_slots, remove_slot, unlock};
use roots::owner_of_roots;
pub use roots::{Newest, commit_root, forget_roots_below, heal_root, newest_root};
pub use secrets::{MasterKey, SecretKey};

use crate::error::{Result, StoreError, StoreErrorKind};
use format::bytes::{Fault, FormatError};
use format::config::Config;
use media::{Blobs, MediaErrorKind, Put};

/// Second names of small precious blobs live below this directory.
const MIRROR: &str = "mirror";
const CONFIG: &str = "config";
/// Largest of them; bounds what a damaged pool can make us read.
const BLOB_BYTES_MAX: u64 = format::mirrored::MIRRORED_BYTES_MAX;

/// What was found on the way, in words, one item each.
#[derive(Default)]
pub struct Notes {
    /// Stored bytes that are not what was written, or are gone.
    pub damage: Vec<String>,
    /// Second copies that are missing where an interrupted writer may have left one only.
    pub unpaired: Vec<String>,
}

impl Notes {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds damage.
    pub fn push(&mut self, damage: String) {
        self.damage.push(damage);
    }

    /// Adds what others noted.
    pub fn append(&mut self, mut others: Self) {
        self.damage.append(&mut others.damage);
        self.unpaired.append(&mut others.unpaired);
    }
}

/// What it means that one of two copies is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unpaired {
    /// Damage: both were durable before anything else was stored.
    Damage,
    /// A writer may have been interrupted between the two.
    Interrupted,
}

/// Puts both copies of a small blob.
fn put_twice(blobs: &dyn Blobs, name: &str, bytes: &[u8]) -> Result<()> {
    blobs.put(name, bytes.to_vec(), Put::Replace)?;
    blobs.put(&mirror_name(name), bytes.to_vec(), Put::Replace)?;
    Ok(())
}

fn mirror_name(name: &str) -> String {
    format!("{MIRROR}/{name}")
}

/// Reads the better of two copies; `decode` tells a good one and whether it is damaged in part.
/// What the device cannot give is damaged too. `Ok(None)` when neither name exists.
fn read_twice<T>(
    blobs: &dyn Blobs,
    name: &str,
    unpaired: Unpaired,
    notes: &mut Notes,
    decode: impl Fn(&[u8]) -> std::result::Result<(T, bool), FormatError>,
) -> Result<Option<T>> {
    let mut best = None;
    let mut absent = Vec::new();
    let mut failure = None;
    let mut device = None;
    for copy in [name.to_owned(), mirror_name(name)] {
        match blobs.read(&copy, BLOB_BYTES_MAX) {
            Ok(bytes) => match decode(&bytes) {
                Ok((value, damaged)) => {
                    if damaged {
                        notes.push(format!("{copy}: one of its two copies is damaged"));
                    }
                    best.get_or_insert(value);
                }
                Err(e) => {
                    notes.push(format!("{copy}: {e}"));
                    failure.get_or_insert(e);
                }
            },
            Err(e) if e.kind == MediaErrorKind::NotFound => {
                absent.push(format!("{copy}: missing"));
            }
            Err(e) if e.kind == MediaErrorKind::Io => {
                notes.push(format!("{copy}: {e}"));
                device.get_or_insert(e);
            }
            Err(e) => return Err(e.into()),
        }
    }
    if best.is_some() || failure.is_some() || device.is_some() {
        match unpaired {
            Unpaired::Damage => notes.damage.append(&mut absent),
            Unpaired::Interrupted => notes.unpaired.append(&mut absent),
        }
    }
    match (best, failure, device) {
        (Some(value), _, _) => Ok(Some(value)),
        (None, _, Some(e)) => Err(e.into()),
        (None, Some(e), None) => Err(format_error(name, e)),
        (None, None, None) => Ok(None),
    }
}

/// A decoding error with the name of the blob.
pub fn format_error(at: &str, e: FormatError) -> StoreError {
    match e.fault {
        Fault::Version(_) | Fault::Features(_) => {
            StoreError::new(StoreErrorKind::Unsupported, format!("{at}: {e}"))
        }
        _ => StoreError::corruption(e.what, at, e),
    }
}

/// Stores the settings of a new pool; not durable yet.
pub fn put_config(blobs: &dyn Blobs, config: &Config) -> Result<()> {
    put_twice(blobs, CONFIG, &config.encode())
}

/// The settings; `NoPool` when there are none and nothing was ever stored here.
pub fn read_config(blobs: &dyn Blobs, notes: &mut Notes) -> Result<Config> {
    let pool_of = |name: &str| {
        let bytes = blobs.read(name, BLOB_BYTES_MAX).ok()?;
        Some(Config::decode(&bytes).ok()?.0.pool)
    };
    // A config of another pool under one of the names: the roots know which one is ours.
    let owner = match [CONFIG, &mirror_name(CONFIG)].map(pool_of) {
        [Some(a), Some(b)] if a != b => owner_of_roots(blobs)?,
        _ => None,
    };
    let decode = |bytes: &[u8]| match Config::decode(bytes)? {
        (config, _) if owner.is_some_and(|pool| pool != config.pool) => {
            Err(FormatError::new(CONFIG, Fault::Misplaced))
        }
        decoded => Ok(decoded),
    };
    match read_twice(blobs, CONFIG, Unpaired::Damage, notes, decode)? {
        Some(config) => Ok(config),
        None if is_empty(blobs)? => Err(StoreError::new(
            StoreErrorKind::NoPool,
            "nothing here looks like one",
        )),
        None => Err(StoreError::corruption(
            CONFIG,
            CONFIG,
            "missing under both names",
        )),
    }
}

/// Another copy of the config of the same pool than the one that `read_config` chose: that one may
/// have been forged.
pub fn other_config(
    blobs: &dyn Blobs,
    chosen: &Config,
    is_wanted: impl Fn(&Config) -> bool,
) -> Option<Config> {
    let names = [CONFIG.to_owned(), mirror_name(CONFIG)];
    let copies = names.iter().filter_map(|name| {
        let bytes = blobs.read(name, BLOB_BYTES_MAX).ok()?;
        Some(Config::decode(&bytes).ok()?.0)
    });
    let mut wanted = copies.filter(|copy| copy.pool == chosen.pool && is_wanted(copy));
    wanted.next()
}

/// True when no root and no container was ever put: at most an interrupted init.
pub fn is_empty(blobs: &dyn Blobs) -> Result<bool> {
    let none = |dir: &str| Ok::<_, StoreError>(blobs.list(dir)?.is_empty());
    Ok(none("roots")? && none(&mirror_name("roots"))? && none("containers")?)
}

/// Writes both copies of the config again when one was damaged or missing. Names only count as
/// healed at the next barrier, which every commit has.
pub fn heal_config(blobs: &dyn Blobs, config: &Config) -> Result<()> {
    let bytes = config.encode();
    for name in [CONFIG.to_owned(), mirror_name(CONFIG)] {
        if blobs.read(&name, BLOB_BYTES_MAX).ok().as_deref() != Some(&bytes) {
            blobs.put(&name, bytes.clone(), Put::Replace)?;
        }
    }
    Ok(())
}
