//! A disk whose requests wait for I/O grants. Blobs (containers) and owners of files (journal,
//! index) use it like any disk.
//!
//! Invariant: it reads and writes exactly what its callers ask of the disk below. Only the time and
//! the size of the pieces differ.

use super::around::{Around, Surroundings, WINDOW_BYTES};
use super::state::PIECE_BYTES;
use super::{PieceKind, RequestQueue, flow_of, is_maintenance};
use media::{Barrier, Disk, DiskFile, DiskLayer, IoOrigin, MediaError, ReadFrom};
use qos::{Direction, Flow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A read that begins at most this far behind the end of the last one counts as sequential: the
/// system has read ahead, or skips as cheaply.
const SKIPPED_BYTES: u64 = 128 << 10;
/// So does one that begins at most this far before that end: regions share a sector, and the system
/// keeps the block.
const AGAIN_BYTES: u64 = 4096;
/// Sequential reads of maintenance end their read-ahead at multiples of this, so that it stays
/// within one grant.
const AHEAD_BYTES: u64 = 256 << 10;
/// Alignment of reads past the cache, bytes.
const SECTOR_BYTES: u64 = 4096;

/// Selects whether writes wait for grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Their sync waits: such writes are large and no client waits for them. Writes of maintenance
    /// go past the cache in pieces and leave nothing to the sync; the pieces of long ones wait for
    /// grants.
    WaitForGrants,
    /// Writes pass and are counted: a client waits for them.
    Pass,
}

/// See the module's head.
pub struct PacedDisk {
    below: Arc<dyn Disk>,
    queue: Arc<dyn RequestQueue>,
    writes: Writes,
    around: Arc<Around>,
}

impl PacedDisk {
    /// Wraps a disk.
    pub fn new(below: Arc<dyn Disk>, queue: Arc<dyn RequestQueue>, writes: Writes) -> Self {
        Self {
            below,
            queue,
            writes,
            around: Arc::default(),
        }
    }

    fn paced(&self, below: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(PacedFile {
            below,
            queue: Arc::clone(&self.queue),
            writes: self.writes,
            number: self.around.new_file(),
            around: Arc::clone(&self.around),
            read_to: AtomicU64::new(0),
            unsynced_bytes: AtomicU64::new(0),
        })
    }
}

impl DiskLayer for PacedDisk {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.paced(self.below.open(path, create)?))
    }

    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.paced(self.below.create_new(path)?))
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.paced(self.below.open_read(path)?))
    }

    fn is_paced(&self) -> bool {
        self.writes == Writes::WaitForGrants && is_maintenance()
    }
}

struct PacedFile {
    below: Arc<dyn DiskFile>,
    queue: Arc<dyn RequestQueue>,
    writes: Writes,
    /// Its number in `around`.
    number: u64,
    around: Arc<Around>,
    /// Offset at which the last read ended.
    read_to: AtomicU64,
    unsynced_bytes: AtomicU64,
}

impl PacedFile {
    /// Returns true if a read begins where the last one ended.
    fn goes_on(&self, offset: u64, bytes: u64) -> bool {
        let end = offset.saturating_add(bytes);
        let before = self.read_to.swap(end, Ordering::Relaxed);
        (before.saturating_sub(AGAIN_BYTES)..=before.saturating_add(SKIPPED_BYTES))
            .contains(&offset)
    }

    fn read(
        &self,
        offset: u64,
        into: &mut [u8],
        mut read: impl FnMut(u64, &mut [u8], bool) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        let bytes = into.len() as u64;
        let goes_on = self.goes_on(offset, bytes);
        let io_origin = IoOrigin::current();
        let flow = flow_of(io_origin);
        let surroundings = self.surroundings(flow, offset);
        let (goes_on, device_bytes) = match surroundings {
            Surroundings::Leave | Surroundings::ReadAfter(_) => (goes_on, bytes),
            // The system's page cache has it.
            Surroundings::Here => (true, bytes),
            Surroundings::ReadBefore(_) => (goes_on, WINDOW_BYTES),
        };
        let request = self
            .queue
            .enter(io_origin, Direction::Read, goes_on, device_bytes);
        if request.is_some() || !flow.is_maintenance() {
            if let Surroundings::ReadBefore(start) = surroundings {
                self.below.read_around(start, WINDOW_BYTES);
            }
            let done = read(offset, into, goes_on);
            drop(request);
            if let Surroundings::ReadAfter(start) = surroundings {
                self.queue.note(io_origin, Direction::Read, WINDOW_BYTES);
                self.below.read_around(start, WINDOW_BYTES);
            }
            return done;
        }
        let (mut offset, mut left, mut goes_on) = (offset, into, goes_on);
        loop {
            let kind = PieceKind::Read {
                is_sequential: goes_on,
            };
            let may = self.queue.before_piece(flow, kind, left.len() as u64);
            let (piece, rest) = left.split_at_mut(piece_len(offset, may, left.len()));
            let done = read(offset, piece, goes_on);
            self.queue.after_piece(flow);
            done?;
            offset = offset.saturating_add(piece.len() as u64);
            (left, goes_on) = (rest, true);
            if left.is_empty() {
                return Ok(());
            }
        }
    }

    /// Decides what to read with a client's random read.
    fn surroundings(&self, flow: Flow, offset: u64) -> Surroundings {
        match flow == Flow::of_client(false) && self.queue.has_arms() {
            true => self.around.of(self.number, offset),
            false => Surroundings::Leave,
        }
    }

    fn write_pieces(
        &self,
        io_origin: IoOrigin,
        mut offset: u64,
        data: &[u8],
    ) -> Result<(), MediaError> {
        let is_long = data.len() > PIECE_BYTES;
        let flow = flow_of(io_origin);
        for piece in data.chunks(PIECE_BYTES) {
            let bytes = piece.len() as u64;
            if is_long {
                self.queue.before_piece(flow, PieceKind::Write, bytes);
            }
            self.queue.note(io_origin, Direction::Write, bytes);
            let written = self.below.write_at_past_cache(offset, piece);
            if is_long {
                self.queue.after_piece(flow);
            }
            written?;
            offset = offset.saturating_add(bytes);
        }
        Ok(())
    }
}

impl DiskFile for PacedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        if !is_maintenance() {
            return self.read(offset, into, |at, into, _| self.below.read_at(at, into));
        }
        // The system would read ahead without a grant, in the way of other requests.
        let end = offset.saturating_add(into.len() as u64);
        let window_end = end.checked_next_multiple_of(AHEAD_BYTES).unwrap_or(end);
        self.read(offset, into, |at, into, goes_on| {
            let ahead_bytes = if goes_on { window_end - end } else { 0 };
            self.below.read_at_ahead(at, into, ahead_bytes)
        })
    }

    /// The read itself asks for its grant. Here it must only be sure to get one at once: a request
    /// that has to wait is not at the device meanwhile.
    fn announce_read(&self, offset: u64, len: u64) -> bool {
        self.queue.would_pass(IoOrigin::current()) && self.below.announce_read(offset, len)
    }

    fn read_at_past_cache(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.read(offset, into, |at, into, _| {
            self.below.read_at_past_cache(at, into)
        })
    }

    fn read_at_reported(
        &self,
        offset: u64,
        into: &mut [u8],
        past_cache: bool,
    ) -> Result<ReadFrom, MediaError> {
        if !past_cache && is_maintenance() {
            self.read_at(offset, into)?;
            return Ok(ReadFrom::Cache);
        }
        let mut from = ReadFrom::Device;
        self.read(offset, into, |at, into, _| {
            // One piece from the cache means that the whole read proves nothing about the device.
            if self.below.read_at_reported(at, into, past_cache)? == ReadFrom::Cache {
                from = ReadFrom::Cache;
            }
            Ok(())
        })?;
        Ok(from)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let bytes = data.len() as u64;
        let io_origin = IoOrigin::current();
        match self.writes {
            Writes::WaitForGrants if flow_of(io_origin).is_maintenance() => {
                return self.write_pieces(io_origin, offset, data);
            }
            Writes::WaitForGrants => drop(self.unsynced_bytes.fetch_add(bytes, Ordering::Relaxed)),
            Writes::Pass => self.queue.note(io_origin, Direction::Write, bytes),
        }
        self.below.write_at(offset, data)
    }

    fn len(&self) -> Result<u64, MediaError> {
        self.below.len()
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.below.set_len(len)
    }

    fn allocate(&self, len: u64) -> Result<(), MediaError> {
        self.below.allocate(len)
    }

    fn give_back(&self, len: u64) -> Result<(), MediaError> {
        self.below.give_back(len)
    }

    fn will_be_overwritten(&self) {
        self.below.will_be_overwritten();
    }

    fn claim(&self, len: u64) -> Result<bool, MediaError> {
        self.below.claim(len)
    }

    fn sync(&self, point: Barrier) -> Result<(), MediaError> {
        let io_origin = IoOrigin::current();
        if self.writes == Writes::Pass || flow_of(io_origin).is_maintenance() {
            return self.below.sync(point);
        }
        let bytes = self.unsynced_bytes.swap(0, Ordering::Relaxed);
        let granted_step = self.queue.enter(io_origin, Direction::Write, true, bytes);
        let done = self.below.sync(point);
        drop(granted_step);
        done
    }
}

/// Returns the length of the next piece of `left` bytes at `offset`, of which `may` are granted. A
/// piece ends at a sector boundary where it can: reads past the cache consist of whole sectors, and
/// reading one twice costs a disk a whole revolution.
fn piece_len(offset: u64, may: u64, left: usize) -> usize {
    let may = usize::try_from(may).unwrap_or(usize::MAX).max(1);
    if may >= left {
        return left;
    }
    let into_sector = (offset.wrapping_add(may as u64) % SECTOR_BYTES) as usize;
    match may.checked_sub(into_sector) {
        Some(0) | None => may,
        Some(whole) => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::super::RequestGrant;
    use super::*;
    use parking_lot::Mutex;
    use units::Origin;

    const PART: usize = 20 << 10;

    /// Lets every request pass.
    struct Open {
        has_arms: bool,
    }

    impl RequestQueue for Open {
        fn enter(
            &self,
            _: IoOrigin,
            _: Direction,
            _: bool,
            _: u64,
        ) -> Option<Box<dyn RequestGrant + '_>> {
            None
        }

        fn has_arms(&self) -> bool {
            self.has_arms
        }

        fn note(&self, _: IoOrigin, _: Direction, _: u64) {}
    }

    /// Records how far ahead of each read the system was allowed to read.
    #[derive(Default)]
    struct ReadAheads(Mutex<Vec<Option<u64>>>);

    impl DiskFile for ReadAheads {
        fn read_around(&self, offset: u64, len: u64) {
            assert_eq!(len, WINDOW_BYTES);
            self.0.lock().push(Some(offset));
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), MediaError> {
            self.0.lock().push(None);
            Ok(())
        }

        fn read_at_ahead(&self, _: u64, _: &mut [u8], ahead: u64) -> Result<(), MediaError> {
            self.0.lock().push(Some(ahead));
            Ok(())
        }

        fn write_at(&self, _: u64, _: &[u8]) -> Result<(), MediaError> {
            Ok(())
        }

        fn len(&self) -> Result<u64, MediaError> {
            Ok(0)
        }

        fn set_len(&self, _: u64) -> Result<(), MediaError> {
            Ok(())
        }

        fn sync(&self, _: Barrier) -> Result<(), MediaError> {
            Ok(())
        }
    }

    /// Regression: the system's own read-ahead once read 1.8 MiB of a container in one grant for
    /// 256 KiB, in front of clients.
    #[test]
    fn the_system_reads_no_more_ahead_of_maintenance_than_its_turn_is_for() {
        let read_aheads = Arc::new(ReadAheads::default());
        let file = PacedFile {
            below: Arc::clone(&read_aheads) as _,
            queue: Arc::new(Open { has_arms: false }),
            writes: Writes::WaitForGrants,
            number: 0,
            around: Arc::default(),
            read_to: AtomicU64::new(0),
            unsynced_bytes: AtomicU64::new(0),
        };
        let read = |offset: u64| {
            file.read_at(offset, &mut vec![0; PART]).expect("read");
            read_aheads.0.lock().pop().expect("one")
        };
        {
            let _task = IoOrigin::of(Origin::Collect).begin();
            assert_eq!(read(10 << 20), Some(0), "here and there: nothing more");
            let next = (10 << 20) + PART as u64;
            assert_eq!(read(next), Some(AHEAD_BYTES - 2 * PART as u64));
            assert_eq!(read((11 << 20) - (100 << 10)), Some(0));
            let across = (11 << 20) - (80 << 10);
            assert_eq!(read(across), Some((80 << 10) - PART as u64));
        }
        assert_eq!(read(0), None, "the system's business");
    }

    #[test]
    fn only_random_reads_of_clients_on_a_disk_with_arms_have_surroundings() {
        let random = IoOrigin {
            is_sequential: false,
            ..IoOrigin::UNKNOWN
        };
        let scrub = IoOrigin {
            is_sequential: false,
            ..IoOrigin::of(Origin::Scrub)
        };
        for (has_arms, io_origin, expected) in [
            (true, random, vec![Some(2 << 20), None, None]),
            (true, IoOrigin::UNKNOWN, vec![None, None]),
            (true, scrub, vec![Some(0), Some(0)]),
            (false, random, vec![None, None]),
        ] {
            let read_aheads = Arc::new(ReadAheads::default());
            let file = PacedFile {
                below: Arc::clone(&read_aheads) as _,
                queue: Arc::new(Open { has_arms }),
                writes: Writes::WaitForGrants,
                number: 0,
                around: Arc::default(),
                read_to: AtomicU64::new(0),
                unsynced_bytes: AtomicU64::new(0),
            };
            let _origin = io_origin.begin();
            for at in [3 << 20, (2 << 20) + (50 << 10)] {
                file.read_at(at, &mut vec![0; PART]).expect("read");
            }
            assert_eq!(*read_aheads.0.lock(), expected, "{has_arms} {io_origin:?}");
        }
    }

    #[test]
    fn pieces_end_where_sectors_do() {
        let whole = 64 << 10;
        assert_eq!(piece_len(8192, whole, 1 << 20), 64 << 10);
        assert_eq!(piece_len(8192 + 100, whole, 1 << 20), (64 << 10) - 100);
        assert_eq!(
            piece_len(100, whole, 64 << 10),
            64 << 10,
            "all that is left"
        );
        assert_eq!(piece_len(4095, 1, 10), 1);
        assert_eq!(piece_len(4097, 10, 100), 10, "within one");
        assert_eq!(piece_len(u64::MAX, 0, 10), 1);
    }
}
