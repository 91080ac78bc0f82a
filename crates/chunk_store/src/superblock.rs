//! Config, key slots and roots of a pool. Each is stored under two names, with two copies in each
//! blob. `recovery` and `pool` of the store call this.
//!
//! Invariant: a root is put only if its generation is free, and acknowledged only when durable.
//! This put is the fence between writers. The loss of one copy never loses the pool.

mod keys;
mod roots;
mod secrets;

pub use keys::{NewSecret, SlotInfo};
pub use keys::{add_slot, forget_slots, list_slots, remove_slot, repair_slots, unlock};
use roots::owner_of_roots;
pub use roots::{Newest, commit_root, forget_roots_below, newest_root, repair_root};
pub use secrets::{MasterKey, SecretKey};

use crate::error::{Result, StoreError, StoreErrorKind};
use format::bytes::{Fault, FormatError};
use format::config::Config;
use media::{Blobs, MediaErrorKind, Put};

/// Directory of the second names of these blobs.
const MIRROR: &str = "mirror";
const CONFIG: &str = "config";
/// Size limit of these blobs, bytes. It bounds how much a damaged pool can make us read.
const BLOB_BYTES_MAX: u64 = format::mirrored::MIRRORED_BYTES_MAX;

/// Findings of reading, one text each.
#[derive(Default)]
pub struct Notes {
    /// Stored bytes that are damaged or missing.
    pub damage: Vec<String>,
    /// Missing second copies where an interrupted writer may have left only one.
    pub unpaired: Vec<String>,
}

impl Notes {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds damage.
    pub fn push(&mut self, damage: String) {
        self.damage.push(damage);
    }

    /// Appends other notes.
    pub fn append(&mut self, mut others: Self) {
        self.damage.append(&mut others.damage);
        self.unpaired.append(&mut others.unpaired);
    }
}

/// Meaning of one missing copy of two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unpaired {
    /// Damage: both were durable before anything else was stored.
    Damage,
    /// No damage: a writer may have been interrupted between the two.
    Interrupted,
}

/// Puts both copies of a small blob. They are durable after the next barrier.
fn put_twice(blobs: &dyn Blobs, name: &str, bytes: &[u8]) -> Result<()> {
    blobs.put(name, bytes.to_vec(), Put::Replace)?;
    blobs.put(&mirror_name(name), bytes.to_vec(), Put::Replace)?;
    Ok(())
}

fn mirror_name(name: &str) -> String {
    format!("{MIRROR}/{name}")
}

/// Reads the better of two copies. `decode` fails on a bad copy, and returns true with a good copy
/// that is partly damaged. A copy that the device cannot read counts as damaged. Returns `Ok(None)`
/// if neither name exists.
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
                        notes.push(format!("{copy}: one of two copies is damaged"));
                    }
                    best.get_or_insert(value);
                }
                Err(e) => {
                    notes.push(format!("{copy}: {e}"));
                    failure.get_or_insert(e);
                }
            },
            Err(e) if e.kind == MediaErrorKind::NotFound => {
                absent.push(format!("{copy}: one of two copies is missing"));
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

/// Wraps a decoding error with the name of the blob.
pub fn format_error(at: &str, e: FormatError) -> StoreError {
    match e.fault {
        Fault::Version(_) | Fault::Features(_) => {
            StoreError::new(StoreErrorKind::Unsupported, format!("{at}: {e}"))
        }
        _ => StoreError::corruption(e.what, at, e),
    }
}

/// Stores the settings of a pool: of a new one, or with more features. They are durable after the
/// next barrier.
pub fn put_config(blobs: &dyn Blobs, config: &Config) -> Result<()> {
    put_twice(blobs, CONFIG, &config.encode())
}

/// Reads the settings. Fails with `NoPool` if there are none and nothing was ever stored here.
pub fn read_config(blobs: &dyn Blobs, notes: &mut Notes) -> Result<Config> {
    let pool_of = |name: &str| {
        let bytes = blobs.read(name, BLOB_BYTES_MAX).ok()?;
        Some(Config::decode(&bytes).ok()?.0.pool)
    };
    // One name may have the config of another pool. The roots know which pool is here.
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
            "there is no pool here. Is its disk mounted? Create a new one with quintet init",
        )),
        None => Err(StoreError::corruption(
            CONFIG,
            CONFIG,
            "both copies are missing",
        )),
    }
}

/// Returns a copy of this pool's config that `is_wanted` accepts, other than the one `read_config`
/// chose: the chosen one may be forged.
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

/// Returns true if no root and no container was ever put: at most an init was interrupted here.
pub fn is_empty(blobs: &dyn Blobs) -> Result<bool> {
    let none = |dir: &str| Ok::<_, StoreError>(blobs.list(dir)?.is_empty());
    Ok(none("roots")? && none(&mirror_name("roots"))? && none("containers")?)
}

/// Repairs the config: writes each damaged, older or missing copy again. The copies are durable
/// after the next barrier, and every commit has one. The caller has the writer's lock.
///
/// Returns the config with the features of both copies: an upgrade may have been interrupted
/// between the two, or have happened after `config` was read and before the lock was taken. Fails
/// with `Unsupported` if a copy has features, or a version, that this program does not know.
pub fn repair_config(blobs: &dyn Blobs, mut config: Config) -> Result<Config> {
    let names = [CONFIG.to_owned(), mirror_name(CONFIG)];
    let copies = names
        .each_ref()
        .map(|name| blobs.read(name, BLOB_BYTES_MAX).ok());
    for copy in copies.iter().flatten() {
        match Config::decode(copy) {
            Ok((copy, _)) if copy.pool == config.pool && copy.bound() == config.bound() => {
                config.features_incompat |= copy.features_incompat;
                config.features_ro_compat |= copy.features_ro_compat;
            }
            Err(e) if matches!(e.fault, Fault::Features(_) | Fault::Version(_)) => {
                return Err(format_error(CONFIG, e));
            }
            _ => {}
        }
    }
    let bytes = config.encode();
    for (name, copy) in names.iter().zip(copies) {
        if copy.as_ref() != Some(&bytes) {
            blobs.put(name, bytes.clone(), Put::Replace)?;
        }
    }
    Ok(config)
}
