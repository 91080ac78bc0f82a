//! Record of where the journal is: in the pool, twice; and the name of the fast device, on it.
//!
//! Volumes and readers of a pool call this.
//! Invariant: what the record says is durable before anything relies on it, also if a killed
//! process left it visible only. The device is named before the pool says that the journal is
//! there. A record that cannot be read is an error, never "in the pool".

use super::slot_use::DIR;
use chunk_store::superblock::format_error;
use chunk_store::{Result, StoreError};
use format::bytes::Fault;
use format::journal_place::{JOURNAL_PLACE_BYTES_MAX, JournalPlace, JournalPlaceRecord};
use media::{Barrier, Blobs, Disk, Media, MediaError, MediaErrorKind, Put, Random};
use std::sync::Arc;
use units::PoolId;

/// Names of the two copies in the pool.
const NAMES: [&str; 2] = ["journal-place", "mirror/journal-place"];
/// The file of the device with its name.
const DEVICE: &str = "journal-device";
const DEVICE_NEW: &str = "journal-device.new";

/// Reads the record; `None` if there is none: the journal was never elsewhere. Fails with
/// `Unsupported` if a later version wrote it, and with `Corruption` if copies exist and none is
/// whole.
pub fn read_place(blobs: &dyn Blobs, pool: PoolId) -> Result<Option<JournalPlaceRecord>> {
    let mut newest: Option<JournalPlaceRecord> = None;
    let mut failed = None;
    for name in NAMES {
        let bytes = match blobs.read(name, JOURNAL_PLACE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(e) if e.kind == MediaErrorKind::NotFound => continue,
            Err(e) => {
                failed.get_or_insert(StoreError::from(e));
                continue;
            }
        };
        match JournalPlaceRecord::decode(&bytes, pool) {
            Ok(record) if newest.is_none_or(|n| n.sequence < record.sequence) => {
                newest = Some(record);
            }
            Ok(_) => {}
            Err(e) if matches!(e.fault, Fault::Version(_)) => return Err(format_error(name, e)),
            Err(e) => drop(failed.get_or_insert(format_error(name, e))),
        }
    }
    match (newest, failed) {
        (Some(record), _) => Ok(Some(record)),
        (None, Some(e)) => Err(e),
        (None, None) => Ok(None),
    }
}

/// Keeps the record of a pool that is open for writing. See the module's head.
pub struct PlaceKeeper {
    blobs: Arc<dyn Blobs>,
    random: Arc<dyn Random>,
    pool: PoolId,
    record: JournalPlaceRecord,
}

impl PlaceKeeper {
    /// Continues from the record that was found.
    pub fn new(media: &Media, pool: PoolId, record: JournalPlaceRecord) -> Self {
        Self {
            blobs: Arc::clone(&media.blobs),
            random: Arc::clone(&media.random),
            pool,
            record,
        }
    }

    /// Returns the record.
    pub fn record(&self) -> &JournalPlaceRecord {
        &self.record
    }

    /// Returns a name for a device.
    pub fn new_device(&self) -> [u8; 16] {
        let mut device = [0; 16];
        while device == [0; 16] {
            self.random.fill(&mut device);
        }
        device
    }

    /// Replaces the record, whose sequence number this sets: durable on return.
    pub fn write(&mut self, record: JournalPlaceRecord) -> Result<()> {
        self.record = JournalPlaceRecord {
            sequence: self.record.sequence.saturating_add(1),
            ..record
        };
        let bytes = self.record.encode(self.pool);
        for name in NAMES {
            self.blobs.put(name, bytes.clone(), Put::Replace)?;
        }
        self.blobs.barrier(Barrier::JournalPlaceBeforeUse)?;
        Ok(())
    }
}

/// The name of a fast device, as the device has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// There is no such directory.
    Absent,
    /// It has no name: it never had a journal, or its contents are lost.
    Unnamed,
    /// It has the journal of another pool.
    Foreign,
    /// Its name is damaged: why.
    Damaged(String),
    /// It has this name.
    Named([u8; 16]),
}

/// Reads the name of a device. Fails if the device does, and with `Unsupported` if a later version
/// named it.
pub fn name_of_device(disk: &dyn Disk, pool: PoolId) -> Result<DeviceName> {
    let bytes = match read_all(disk, DEVICE) {
        Ok(bytes) => bytes,
        Err(e) if e.kind == MediaErrorKind::NotFound => {
            return match disk.list("") {
                Ok(_) => Ok(DeviceName::Unnamed),
                Err(e) if e.kind == MediaErrorKind::NotFound => Ok(DeviceName::Absent),
                Err(e) if e.kind == MediaErrorKind::Io => Ok(DeviceName::Damaged(e.to_string())),
                Err(e) => Err(e.into()),
            };
        }
        Err(e) if e.kind == MediaErrorKind::Io => return Ok(DeviceName::Damaged(e.to_string())),
        Err(e) => return Err(e.into()),
    };
    match JournalPlaceRecord::decode(&bytes, pool) {
        Ok(record) if record.place != JournalPlace::Pool => Ok(DeviceName::Named(record.device)),
        Ok(_) => Ok(DeviceName::Damaged("it names no device".to_owned())),
        Err(e) if e.fault == Fault::Misplaced => Ok(DeviceName::Foreign),
        Err(e) if matches!(e.fault, Fault::Version(_)) => Err(format_error(DEVICE, e)),
        Err(e) => Ok(DeviceName::Damaged(e.to_string())),
    }
}

fn read_all(disk: &dyn Disk, name: &str) -> std::result::Result<Vec<u8>, MediaError> {
    let file = disk.open_read(name)?;
    let len = file.len()?.min(JOURNAL_PLACE_BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Names a device: durable on return.
pub fn name_device(disk: &dyn Disk, pool: PoolId, device: [u8; 16]) -> Result<()> {
    let record = JournalPlaceRecord {
        place: JournalPlace::Fast,
        device,
        ..JournalPlaceRecord::default()
    };
    let file = disk.open(DEVICE_NEW, true)?;
    file.write_at(0, &record.encode(pool))?;
    file.sync(Barrier::JournalDeviceBeforePlace)?;
    disk.rename(DEVICE_NEW, DEVICE)?;
    disk.sync_dir("", Barrier::JournalDeviceBeforePlace)?;
    Ok(())
}

/// Removes the slots of a disk where the journal is no longer, and a device's name. A failure costs
/// space only.
pub fn forget_device(disk: &dyn Disk) {
    for name in [DEVICE, DEVICE_NEW] {
        let _ = disk.remove(name);
    }
    for entry in disk.list(DIR).unwrap_or_default() {
        if entry.name.parse::<u32>().is_ok() {
            let _ = disk.remove(&format!("{DIR}/{}", entry.name));
        }
    }
}
