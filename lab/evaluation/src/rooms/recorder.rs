//! Records which requests the code of the rooms makes, and where they go.
//!
//! The machine puts a [`RecordedDisk`] in front of each simulated disk; the server takes the
//! requests of the code that has just run.
//! Invariant: each read and write of a file is one request for each piece of it on the disk. Reads
//! of small files (roots, config) are free: the system keeps them. A write is at the device when it
//! returns, so a sync is free.

use super::places::Places;
use media::{Barrier, Disk, DiskFile, DiskLayer, MediaError, ReadFrom};
use parking_lot::Mutex;
use sim::SimDisk;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A device of the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DeviceName {
    /// The disks with the pool.
    Pool,
    /// The flash device.
    Fast,
}

/// Use of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FileUse {
    /// Chunks, recipes and directories of containers.
    Container,
    /// The fingerprint index, or its copy.
    Index,
    /// The journal of volumes.
    Journal,
    /// Blocks of the fast tier.
    Tier,
    /// Small files.
    Other,
}

impl FileUse {
    fn of(path: &str) -> Self {
        let is = |prefix: &str| path.starts_with(prefix);
        match () {
            () if is("containers/") || is("tmp/") => Self::Container,
            () if is("cache/fpi") || is("quintet-index-") => Self::Index,
            () if path.contains("journal") => Self::Journal,
            () if is("quintet-tier-") => Self::Tier,
            () => Self::Other,
        }
    }
}

/// A request to a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Charge {
    /// The device.
    pub device: DeviceName,
    /// Use of the file.
    pub of: FileUse,
    /// First byte on the device.
    pub address: u64,
    /// Size, bytes.
    pub bytes: u64,
    /// True for a write.
    pub is_write: bool,
}

#[derive(Clone, Default)]
struct DeviceFiles {
    numbers: BTreeMap<String, u64>,
    last: u64,
    places: Places,
}

#[derive(Clone, Default)]
struct Recorded {
    charges: Vec<Charge>,
    devices: BTreeMap<DeviceName, DeviceFiles>,
}

/// The requests of both devices, in order.
#[derive(Default)]
pub struct Recorder(Mutex<Recorded>);

impl Recorder {
    /// Returns the requests since the last call.
    pub fn take(&self) -> Vec<Charge> {
        std::mem::take(&mut self.0.lock().charges)
    }

    /// Returns a copy: the same files at the same places.
    pub fn copy(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }

    /// Returns the first address behind the files of a device, bytes.
    pub fn end_bytes(&self, device: DeviceName) -> u64 {
        let recorded = self.0.lock();
        let files = recorded.devices.get(&device);
        files.map_or(0, |files| files.places.end_bytes())
    }

    /// Returns the number of a file. Numbers stay with a file that is renamed.
    fn number(&self, device: DeviceName, path: &str) -> u64 {
        let mut recorded = self.0.lock();
        let files = recorded.devices.entry(device).or_default();
        if let Some(number) = files.numbers.get(path) {
            return *number;
        }
        files.last += 1;
        files.numbers.insert(path.to_owned(), files.last);
        files.last
    }

    fn rename(&self, device: DeviceName, from: &str, to: &str) {
        let mut recorded = self.0.lock();
        let files = recorded.devices.entry(device).or_default();
        if let Some(number) = files.numbers.remove(from)
            && let Some(replaced) = files.numbers.insert(to.to_owned(), number)
        {
            files.places.free(replaced);
        }
    }

    fn remove(&self, device: DeviceName, path: &str) {
        let mut recorded = self.0.lock();
        let files = recorded.devices.entry(device).or_default();
        if let Some(number) = files.numbers.remove(path) {
            files.places.free(number);
        }
    }

    fn charge(&self, file: &RecordedFile, offset: u64, bytes: u64, is_write: bool) {
        if bytes == 0 || (file.of == FileUse::Other && !is_write) {
            return;
        }
        let mut recorded = self.0.lock();
        let files = recorded.devices.entry(file.device).or_default();
        let pieces = files.places.pieces(file.number, offset, bytes);
        let charge = |(address, bytes)| Charge {
            device: file.device,
            of: file.of,
            address,
            bytes,
            is_write,
        };
        recorded.charges.extend(pieces.into_iter().map(charge));
    }
}

/// A disk whose requests are recorded.
pub struct RecordedDisk {
    /// The bytes.
    pub below: Arc<SimDisk>,
    /// The device on which they lie.
    pub device: DeviceName,
    /// Takes the requests.
    pub recorder: Arc<Recorder>,
}

impl RecordedDisk {
    fn recorded(&self, path: &str, below: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(RecordedFile {
            below,
            device: self.device,
            of: FileUse::of(path),
            number: self.recorder.number(self.device, path),
            recorder: Arc::clone(&self.recorder),
        })
    }
}

impl DiskLayer for RecordedDisk {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.recorded(path, self.below.open(path, create)?))
    }

    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.recorded(path, self.below.create_new(path)?))
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.recorded(path, self.below.open_read(path)?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.below.rename(from, to)?;
        self.recorder.rename(self.device, from, to);
        Ok(())
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.below.rename_new(from, to)?;
        self.recorder.rename(self.device, from, to);
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<(), MediaError> {
        self.below.remove(path)?;
        self.recorder.remove(self.device, path);
        Ok(())
    }
}

struct RecordedFile {
    below: Arc<dyn DiskFile>,
    device: DeviceName,
    of: FileUse,
    number: u64,
    recorder: Arc<Recorder>,
}

impl DiskFile for RecordedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.recorder.charge(self, offset, into.len() as u64, false);
        self.below.read_at(offset, into)
    }

    /// The modelled machine keeps containers in no other cache.
    fn read_at_reported(
        &self,
        offset: u64,
        into: &mut [u8],
        _past_cache: bool,
    ) -> Result<ReadFrom, MediaError> {
        self.read_at(offset, into)?;
        Ok(ReadFrom::Device)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.below.write_at(offset, data)?;
        self.recorder.charge(self, offset, data.len() as u64, true);
        Ok(())
    }

    fn len(&self) -> Result<u64, MediaError> {
        self.below.len()
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.below.set_len(len)
    }

    /// The space is there, and takes no time.
    fn allocate(&self, len: u64) -> Result<(), MediaError> {
        self.below.allocate(len)
    }

    fn claim(&self, len: u64) -> Result<bool, MediaError> {
        self.below.claim(len)
    }

    fn sync(&self, point: Barrier) -> Result<(), MediaError> {
        self.below.sync(point)
    }
}
