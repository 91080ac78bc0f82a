//! Key slots: several secrets, each wrapping the same master key.
//!
//! Invariant: a slot counts only when durable; the last slot is never removed; secrets never
//! leave this file except derived.

use super::{Notes, Unpaired, mirror_name, put_twice, read_twice};
use crate::error::{Result, StoreError, StoreErrorKind};
use chunking::{Argon2Cost, FingerprintKey, SealKey, derive_key, stretch_password};
use format::bytes::{Fault, FormatError};
use format::key_slot::{KeyDerivation, KeySlot};
use media::{Barrier, Media};
use units::PoolId;

const DIR: &str = "keys";
/// What opening a pool costs: see `docs/decisions/` on keys.
const COST: Argon2Cost = Argon2Cost {
    memory_kib: 46 << 10,
    passes: 1,
    lanes: 1,
};

/// What a user proves to be allowed with.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretKey {
    /// A password, any bytes.
    Password(Vec<u8>),
    /// The 256 random bits of a recovery key.
    Recovery([u8; 32]),
}

/// A secret for a new slot.
pub struct NewSecret<'a> {
    /// The secret.
    pub secret: &'a SecretKey,
    /// What the user calls it.
    pub label: &'a str,
}

/// What can be told about a slot without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// The stored slot.
    pub slot: KeySlot,
}

impl SlotInfo {
    /// Name as users type it: 16 hexadecimal digits.
    pub fn name(&self) -> String {
        slot_name(&self.slot.id)
    }
}

/// The one secret that all others derive from.
#[derive(Clone)]
pub struct MasterKey(pub [u8; 32]);

impl MasterKey {
    /// Names of chunks.
    pub fn fingerprint_key(&self) -> FingerprintKey {
        FingerprintKey::new(derive_key("Quintet 2026-11 chunk fingerprints", &self.0))
    }

    /// Bodies of roots; nonces are random.
    pub fn root_key(&self) -> SealKey {
        SealKey::new(&derive_key("Quintet 2026-11 root bodies", &self.0))
    }

    /// Payloads of the container with this salt; the nonce is the region number.
    pub fn container_key(&self, salt: &[u8; 32]) -> SealKey {
        self.salted("Quintet 2026-11 container payloads", salt)
    }

    /// Records of the journal slot's use with this salt; the nonce is the position.
    pub fn journal_key(&self, salt: &[u8; 32]) -> SealKey {
        self.salted("Quintet 2026-11 journal records", salt)
    }

    fn salted(&self, context: &'static str, salt: &[u8; 32]) -> SealKey {
        let mut material = [0; 64];
        material[..32].copy_from_slice(&self.0);
        material[32..].copy_from_slice(salt);
        SealKey::new(&derive_key(context, &material))
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
            let mut material = [0; 64];
            material[..32].copy_from_slice(key);
            material[32..].copy_from_slice(&slot.salt);
            derive_key("Quintet 2026-11 recovery slot", &material)
        }
        _ => return Ok(None),
    };
    Ok(Some(SealKey::new(&key)))
}

/// Adds a slot and returns when it is durable.
pub(crate) fn add_slot(
    media: &Media,
    pool: PoolId,
    master: &MasterKey,
    new: &NewSecret<'_>,
    barrier: Barrier,
) -> Result<SlotInfo> {
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
        wrapped: [0; 48],
    };
    media.random.fill(&mut slot.id);
    media.random.fill(&mut slot.salt);
    if let Some(key) = wrapping_key(&slot, new.secret)? {
        let mut wrapped = master.0.to_vec();
        key.seal([0; 12], &slot.associated_data(), &mut wrapped, 0);
        slot.wrapped.copy_from_slice(&wrapped);
    }
    let name = format!("{DIR}/{}", slot_name(&slot.id));
    put_twice(&*media.blobs, &name, &slot.encode())?;
    media.blobs.barrier(barrier)?;
    Ok(SlotInfo { slot })
}

/// Names under which slots lie, of whatever pool.
fn slot_names(media: &Media) -> Result<Vec<String>> {
    let mut names = media.blobs.list(DIR)?;
    names.extend(media.blobs.list(&mirror_name(DIR))?);
    names.sort();
    names.dedup();
    Ok(names)
}

/// All readable slots of this pool, oldest first. A slot says itself which one it is, so one that
/// lies under another's names still counts.
pub(crate) fn list_slots(media: &Media, pool: PoolId, notes: &mut Notes) -> Result<Vec<SlotInfo>> {
    let mut slots: Vec<SlotInfo> = Vec::new();
    for name in slot_names(media)? {
        let read = |anywhere: bool, notes: &mut Notes| {
            let decode = |bytes: &[u8]| match KeySlot::decode(bytes)? {
                (slot, damaged)
                    if slot.pool == pool && (anywhere || slot_name(&slot.id) == name) =>
                {
                    Ok((slot, damaged))
                }
                _ => Err(FormatError::new("key slot", Fault::Misplaced)),
            };
            let name = format!("{DIR}/{name}");
            read_twice(&*media.blobs, &name, Unpaired::Interrupted, notes, decode)
        };
        let found = match read(false, notes) {
            // Noted; other slots may still open the pool.
            Err(e) if e.is_corruption() => read(true, &mut Notes::new()).ok().flatten(),
            found => found?,
        };
        slots.extend(found.map(|slot| SlotInfo { slot }));
    }
    slots.sort_by_key(|s| (s.slot.created, s.slot.id));
    slots.dedup_by_key(|s| s.slot.id);
    Ok(slots)
}

/// The master key, and the slot that gave it.
pub(crate) fn unlock(
    media: &Media,
    pool: PoolId,
    secret: &SecretKey,
    notes: &mut Notes,
) -> Result<(MasterKey, SlotInfo)> {
    let slots = list_slots(media, pool, notes)?;
    for info in &slots {
        let slot = &info.slot;
        let Some(key) = wrapping_key(slot, secret)? else {
            continue;
        };
        let mut master = slot.wrapped.to_vec();
        if key.open([0; 12], &slot.associated_data(), &mut master)
            && let Ok(master) = master.try_into()
        {
            return Ok((MasterKey(master), info.clone()));
        }
    }
    let unreadable = slot_names(media)?.len().saturating_sub(slots.len());
    let message = match (slots.len(), unreadable) {
        (0, m) => {
            let found = format!("none can be read, {m} cannot");
            return Err(StoreError::corruption("key slots", DIR, found));
        }
        (n, 0) => format!("none of {n} key slots opens"),
        (n, m) => format!("none of {n} key slots opens, {m} cannot be read"),
    };
    Err(StoreError::new(StoreErrorKind::WrongKey, message))
}

/// Removes what an interrupted init left: slots of a pool that never was.
pub(crate) fn forget_slots(media: &Media) -> Result<()> {
    for name in slot_names(media)? {
        let name = format!("{DIR}/{name}");
        media.blobs.delete(&mirror_name(&name))?;
        media.blobs.delete(&name)?;
    }
    Ok(())
}

/// Removes a slot by name; the last one stays.
pub(crate) fn remove_slot(media: &Media, pool: PoolId, name: &str) -> Result<()> {
    let slots = list_slots(media, pool, &mut Notes::new())?;
    if !slots.iter().any(|s| s.name() == name) {
        return Err(StoreError::new(
            StoreErrorKind::NotFound,
            format!("no key slot {name}"),
        ));
    }
    if slots.len() == 1 {
        return Err(StoreError::new(
            StoreErrorKind::Invalid,
            "the last key slot cannot be removed: the pool would be lost",
        ));
    }
    // Opening adopted what a killed process may have added.
    media.blobs.barrier(Barrier::KeysBeforeRemoval)?;
    let name = format!("{DIR}/{name}");
    media.blobs.delete(&mirror_name(&name))?;
    media.blobs.delete(&name)?;
    media.blobs.barrier(Barrier::KeyBeforeAck)?;
    Ok(())
}

/// Writes missing or damaged copies of readable slots again. All of them are durable after the next
/// barrier.
pub(crate) fn heal_slots(media: &Media, pool: PoolId) -> Result<()> {
    for info in list_slots(media, pool, &mut Notes::new())? {
        let bytes = info.slot.encode();
        let name = format!("{DIR}/{}", info.name());
        for name in [mirror_name(&name), name] {
            if media
                .blobs
                .read(&name, super::BLOB_BYTES_MAX)
                .ok()
                .as_deref()
                != Some(&bytes)
            {
                media.blobs.put(&name, bytes.clone(), media::Put::Replace)?;
            } else {
                media.blobs.adopt(&name);
            }
        }
    }
    Ok(())
}
