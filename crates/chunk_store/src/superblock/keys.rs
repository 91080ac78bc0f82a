//! Key slots: several secrets, each of which wraps the same master key. Commands that manage keys
//! and the opening of a pool call this.
//!
//! Invariant: a slot counts only when durable. The last slot is never removed. Secrets leave this
//! file only as derived keys. A slot is untrusted until it was opened, so the cost of trying each
//! slot, and of all slots together, is bounded.

use super::secrets::{MasterKey, SecretKey};
use super::{Notes, Unpaired, mirror_name, put_twice, read_twice};
use crate::error::{Result, StoreError, StoreErrorKind};
use chunking::{Argon2Cost, SealKey, derive_key, stretch_password};
use format::bytes::{Fault, FormatError};
use format::config::Config;
use format::key_slot::{
    ARGON2_LANES_MAX, ARGON2_MEMORY_KIB_MAX, ARGON2_PASSES_MAX, KeyDerivation, KeySlot,
};
use media::{Barrier, Media};
use std::cell::RefCell;
use units::PoolId;
use zeroize::Zeroizing;

const DIR: &str = "keys";
/// Cost of opening a pool: see `docs/decisions/` on keys.
const COST: Argon2Cost = Argon2Cost {
    memory_kib: 46 << 10,
    passes: 1,
    lanes: 1,
};
// The cost of new slots stays well below the limits of accepted slots.
const _: () = assert!(
    COST.memory_kib * 8 <= ARGON2_MEMORY_KIB_MAX
        && COST.passes * 4 <= ARGON2_PASSES_MAX
        && COST.lanes * 4 <= ARGON2_LANES_MAX
        && (COST.memory_kib * COST.passes) as u64 * SLOTS_TRIED_MAX as u64 <= WORK_KIB_MAX
);

/// Maximum number of slots that a pool may have, and that opening tries: the owner of a key may add
/// slots of any cost.
const SLOTS_TRIED_MAX: usize = 32;
/// Maximum work of all tried slots together, KiB times passes: about a quarter of a minute.
const WORK_KIB_MAX: u64 = 16 << 20;
/// Maximum number of names below `keys` that are read.
const NAMES_MAX: usize = 256;

/// A secret for a new slot.
pub struct NewSecret<'a> {
    /// The secret.
    pub secret: &'a SecretKey,
    /// Label that the user chose.
    pub label: &'a str,
}

/// Facts about a slot that need no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// The stored slot.
    pub slot: KeySlot,
}

impl SlotInfo {
    /// Returns its name as users type it: 16 hexadecimal digits.
    pub fn name(&self) -> String {
        slot_name(&self.slot.id)
    }
}

fn slot_name(id: &[u8; 8]) -> String {
    id.iter().map(|b| format!("{b:02x}")).collect()
}

fn wrapping_key(slot: &KeySlot, secret: &SecretKey) -> Result<Option<SealKey>> {
    let key = match (slot.derivation, secret) {
        (
            KeyDerivation::Argon2id {
                memory_kib,
                passes,
                lanes,
            },
            SecretKey::Password(password),
        ) => {
            let cost = Argon2Cost {
                memory_kib,
                passes,
                lanes,
            };
            let stretched = stretch_password(password, &slot.salt, cost);
            stretched.ok_or_else(|| {
                StoreError::corruption("key slot", slot_name(&slot.id), "impossible cost")
            })?
        }
        (KeyDerivation::Recovery, SecretKey::Recovery(key)) => {
            let mut material = Zeroizing::new([0; 64]);
            material[..32].copy_from_slice(key);
            material[32..].copy_from_slice(&slot.salt);
            derive_key("Quintet 2026-11 recovery slot", &*material)
        }
        _ => return Ok(None),
    };
    Ok(Some(SealKey::new(&Zeroizing::new(key))))
}

/// Adds a slot and returns when it is durable. Fails with `Invalid` at `SLOTS_TRIED_MAX` slots.
pub fn add_slot(
    media: &Media,
    config: &Config,
    master: &MasterKey,
    new: &NewSecret<'_>,
    barrier: Barrier,
) -> Result<SlotInfo> {
    let pool = config.pool;
    if list_slots(media, pool, &mut Notes::new())?.len() >= SLOTS_TRIED_MAX {
        let why = format!(
            "a pool has at most {SLOTS_TRIED_MAX} keys; remove one first (quintet key remove)"
        );
        return Err(StoreError::new(StoreErrorKind::Invalid, why));
    }
    let mut slot = KeySlot {
        pool,
        id: [0; 8],
        label: new.label.to_owned(),
        created: media.clock.now(),
        derivation: match new.secret {
            SecretKey::Password(_) => KeyDerivation::Argon2id {
                memory_kib: COST.memory_kib,
                passes: COST.passes,
                lanes: COST.lanes,
            },
            SecretKey::Recovery(_) => KeyDerivation::Recovery,
        },
        salt: [0; 32],
        config: Some(config.bound()),
        wrapped: [0; 48],
    };
    media.random.fill(&mut slot.id);
    media.random.fill(&mut slot.salt);
    if let Some(key) = wrapping_key(&slot, new.secret)? {
        let mut wrapped = master.bytes().to_vec();
        key.seal([0; 12], &slot.associated_data(), &mut wrapped, 0);
        slot.wrapped.copy_from_slice(&wrapped);
    }
    let name = format!("{DIR}/{}", slot_name(&slot.id));
    put_twice(&*media.blobs, &name, &slot.encode())?;
    media.blobs.barrier(barrier)?;
    Ok(SlotInfo { slot })
}

/// Returns the names of stored slots, whichever pool they belong to.
fn slot_names(media: &Media) -> Result<Vec<String>> {
    let mut names = media.blobs.list(DIR)?;
    names.extend(media.blobs.list(&mirror_name(DIR))?);
    names.sort();
    names.dedup();
    Ok(names)
}

/// Lists all readable slots of this pool, oldest first. A slot contains its own number, so a slot
/// under another slot's name still counts.
pub fn list_slots(media: &Media, pool: PoolId, notes: &mut Notes) -> Result<Vec<SlotInfo>> {
    let mut slots = read_slots(media, pool, notes)?;
    slots.dedup_by_key(|slot| slot.id);
    let slots = slots.into_iter().map(|slot| SlotInfo { slot });
    Ok(slots.collect())
}

/// Reads all distinct copies of this pool's slots, oldest first. Two different copies of one slot
/// are noted: one of them is forged or damaged, and only the secret can tell which.
fn read_slots(media: &Media, pool: PoolId, notes: &mut Notes) -> Result<Vec<KeySlot>> {
    let mut slots: Vec<KeySlot> = Vec::new();
    let names = slot_names(media)?;
    if names.len() > NAMES_MAX {
        let why = format!(
            "{DIR}: {} key slots exist, and only {NAMES_MAX} are read",
            names.len()
        );
        notes.push(why);
    }
    for name in names.into_iter().take(NAMES_MAX) {
        let copies: RefCell<Vec<KeySlot>> = RefCell::default();
        let read = |anywhere: bool, notes: &mut Notes| {
            let decode = |bytes: &[u8]| match KeySlot::decode(bytes)? {
                (slot, damaged)
                    if slot.pool == pool && (anywhere || slot_name(&slot.id) == name) =>
                {
                    copies.borrow_mut().push(slot);
                    Ok(((), damaged))
                }
                _ => Err(FormatError::new("key slot", Fault::Misplaced)),
            };
            let name = format!("{DIR}/{name}");
            read_twice(&*media.blobs, &name, Unpaired::Interrupted, notes, decode)
        };
        match read(false, notes) {
            // Noted above. Other slots may still open the pool.
            Err(e) if e.is_corruption() => drop(read(true, &mut Notes::new())),
            found => drop(found?),
        }
        let copies = copies.into_inner();
        if copies
            .windows(2)
            .any(|pair| matches!(pair, [a, b] if a.id == b.id && a != b))
        {
            notes.push(format!("{DIR}/{name}: the two copies differ"));
        }
        slots.extend(copies);
    }
    slots.sort_by_key(|slot| (slot.created, slot.id));
    let mut distinct: Vec<KeySlot> = Vec::with_capacity(slots.len());
    for slot in slots {
        if !distinct.contains(&slot) {
            distinct.push(slot);
        }
    }
    Ok(distinct)
}

/// Returns the cost of trying a slot, KiB times passes.
fn work_of(slot: &KeySlot) -> u64 {
    match slot.derivation {
        KeyDerivation::Argon2id {
            memory_kib, passes, ..
        } => u64::from(memory_kib) * u64::from(passes),
        KeyDerivation::Recovery => 0,
    }
}

/// Returns the master key and the slot that opened. Cheap slots are tried first, and the number and
/// cost of tries are limited. Fails with `WrongKey` if no slot opens, and with `Corruption` if none
/// can be read.
pub fn unlock(
    media: &Media,
    pool: PoolId,
    secret: &SecretKey,
    notes: &mut Notes,
) -> Result<(MasterKey, SlotInfo)> {
    let mut slots = read_slots(media, pool, notes)?;
    let readable = slots.len();
    slots.sort_by_key(work_of);
    let fits = |slot: &&KeySlot| match slot.derivation {
        KeyDerivation::Argon2id { .. } => matches!(secret, SecretKey::Password(_)),
        KeyDerivation::Recovery => matches!(secret, SecretKey::Recovery(_)),
    };
    let (mut tried, mut work_kib, mut passed_over) = (0, 0, 0);
    for slot in slots.iter().filter(fits) {
        work_kib += work_of(slot);
        if tried >= SLOTS_TRIED_MAX || work_kib > WORK_KIB_MAX {
            passed_over += 1;
            continue;
        }
        tried += 1;
        let Some(key) = wrapping_key(slot, secret)? else {
            continue;
        };
        let mut master = Zeroizing::new(slot.wrapped.to_vec());
        if key.open([0; 12], &slot.associated_data(), &mut master)
            && let Ok(bytes) = <[u8; 32]>::try_from(master.as_slice())
        {
            let slot = slot.clone();
            return Ok((MasterKey::new(bytes), SlotInfo { slot }));
        }
    }
    let unreadable = slot_names(media)?.len().saturating_sub(readable);
    let mut message = match (readable, unreadable) {
        (0, m) => {
            let found = format!("none of {m} can be read");
            return Err(StoreError::corruption("key slots", DIR, found));
        }
        (n, 0) => format!("it matches none of the pool's keys (tried: {n})"),
        (n, m) => format!("it matches none of the pool's keys (tried: {n}, unreadable: {m})"),
    };
    if passed_over > 0 {
        message += &format!(
            "; not tried: {passed_over}, because there are too many or they cost too much"
        );
    }
    Err(StoreError::new(StoreErrorKind::WrongKey, message))
}

/// Removes the slots of an interrupted init: its pool never existed.
pub fn forget_slots(media: &Media) -> Result<()> {
    for name in slot_names(media)? {
        let name = format!("{DIR}/{name}");
        media.blobs.delete(&mirror_name(&name))?;
        media.blobs.delete(&name)?;
    }
    Ok(())
}

/// Removes a slot by name. Fails with `Invalid` on the last one.
pub fn remove_slot(media: &Media, pool: PoolId, name: &str) -> Result<()> {
    let slots = list_slots(media, pool, &mut Notes::new())?;
    if !slots.iter().any(|s| s.name() == name) {
        return Err(StoreError::new(
            StoreErrorKind::NotFound,
            format!("there is no key {name} (see quintet key list)"),
        ));
    }
    if slots.len() == 1 {
        return Err(StoreError::new(
            StoreErrorKind::Invalid,
            "the last key cannot be removed: nothing could open the pool any more",
        ));
    }
    // Opening has adopted slots that a killed process may have added. They must be durable first.
    media.blobs.barrier(Barrier::KeysBeforeRemoval)?;
    let name = format!("{DIR}/{name}");
    media.blobs.delete(&mirror_name(&name))?;
    media.blobs.delete(&name)?;
    media.blobs.barrier(Barrier::KeyBeforeAck)?;
    Ok(())
}

/// Repairs slots: writes missing or damaged copies of readable slots again. They are durable after
/// the next barrier. If two copies differ, the one that `opened` the pool is the true one. If
/// `opened` is neither, both stay.
pub fn repair_slots(media: &Media, pool: PoolId, opened: Option<&SlotInfo>) -> Result<()> {
    let slots = read_slots(media, pool, &mut Notes::new())?;
    for slot in &slots {
        let mut copies = slots.iter().filter(|other| other.id == slot.id);
        let is_true = opened.is_some_and(|opened| opened.slot == *slot);
        if !is_true && !copies.all(|copy| copy == slot) {
            continue;
        }
        let bytes = slot.encode();
        let name = format!("{DIR}/{}", slot_name(&slot.id));
        for name in [mirror_name(&name), name] {
            let stored = media.blobs.read(&name, super::BLOB_BYTES_MAX).ok();
            if stored.as_deref() != Some(&bytes) {
                media.blobs.put(&name, bytes.clone(), media::Put::Replace)?;
            } else {
                media.blobs.adopt(&name);
            }
        }
    }
    Ok(())
}
