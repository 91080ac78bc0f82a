//! Where the journal is: opens volumes with the journal there, and moves it.
//!
//! ```text
//! record of the place, name of the device ─> source ─ same place ──────────────────> open
//!                                               └─ another: open, empty the journal,
//!                                                  name the device, record the place ─> open
//! ```
//!
//! The server and commands call this.
//! Invariant: a journal moves only when it holds nothing. The record is durable before the first
//! write at the new place, so volumes are never opened over a journal that is elsewhere. A device
//! that is given up as lost is recorded as a loss first.

use super::{Volumes, VolumesOptions};
use format::journal_place::{JournalContents, JournalPlace, JournalPlaceRecord};
use journal::{
    DeviceName, Inspection, Journal, JournalDamage, JournalDisks, LostWrites, PlaceKeeper,
    forget_device, name_device, name_of_device, read_place,
};
use media::{Disk, Media};
use std::sync::Arc;
use store::{Pool, Result, StoreError, StoreErrorKind};
use units::JournalPosition;

const REMEDY: &str = "start quintet serve with --fast and the directory of that device";
const REMEDY_LOST: &str = "if the device is lost, start quintet serve with --journal-lost: it records that the \
                           acknowledged writes that were only there are lost, and goes on without them";
const REMEDY_MIRRORED: &str = "if it is lost, start quintet serve with --journal-on pool: the pool has a copy, and \
                               nothing is lost";

/// The place that the caller wants for the journal, and the device for it.
#[derive(Clone, Default)]
pub struct JournalPlacement {
    /// The fast device, if the caller has one.
    pub fast: Option<Arc<dyn Disk>>,
    /// Where the journal shall be; `None`: where it is.
    pub wanted: Option<JournalPlace>,
    /// The user says that the device with the journal is lost.
    pub device_lost: bool,
}

/// Returns where the journal of a pool is. Fails if the record of that cannot be read.
pub fn journal_place(pool: &Pool) -> Result<JournalPlaceRecord> {
    let found = read_place(&*pool.media().blobs, pool.config().pool)?;
    match found {
        Some(record) => Ok(record),
        None if pool.has_journal_place() => Err(StoreError::corruption(
            "record of the journal's place",
            "journal-place",
            "both copies are missing",
        )),
        None => Ok(JournalPlaceRecord::default()),
    }
}

/// Checks the journal of a pool without writing; `None` if it is only on a fast device. If another
/// process writes meanwhile, damage below the position that a root names afterwards does not count.
pub fn inspect_journal(pool: &Pool) -> Result<Option<Inspection>> {
    if journal_place(pool)?.is_elsewhere() {
        return Ok(None);
    }
    let from = JournalPosition(pool.record().journal_position);
    let (master, seal) = pool.sealing();
    Journal::inspect(pool.media(), pool.config().pool, master, seal, from).map(Some)
}

/// Returns lost acknowledged writes that no user has acknowledged, and how many more there were.
/// Reads only the journal's record of them, which is always in the pool.
pub fn recorded_losses(pool: &Pool) -> Result<(Vec<LostWrites>, u32)> {
    let (master, seal) = pool.sealing();
    Journal::recorded_losses(pool.media(), pool.config().pool, master, seal)
}

/// Where the journal was found.
struct Located {
    keeper: PlaceKeeper,
    /// A record exists.
    is_recorded: bool,
    /// The disk that has the journal; `None`: the pool's own.
    device: Option<Arc<dyn Disk>>,
    /// Why the recorded device cannot be used.
    absent: Option<String>,
}

impl Located {
    fn of(pool: &Pool, placement: &JournalPlacement) -> Result<Self> {
        let media = pool.media();
        let id = pool.config().pool;
        let (record, is_recorded) = match journal_place(pool) {
            Ok(record) => (record, pool.has_journal_place()),
            Err(e) if e.is_corruption() => (unreadable(pool, placement, &e)?, true),
            Err(e) => return Err(e),
        };
        let keeper = PlaceKeeper::new(media, id, record);
        let (device, absent) = match record.place {
            JournalPlace::Pool => (None, None),
            JournalPlace::Fast | JournalPlace::Mirrored => {
                let why = why_not(pool, placement.fast.as_ref(), &record.device)?;
                (placement.fast.clone().filter(|_| why.is_none()), why)
            }
        };
        Ok(Self {
            keeper,
            is_recorded,
            device,
            absent,
        })
    }

    /// Returns the disks that have what is needed.
    fn disks(&self, media: &Media) -> JournalDisks {
        match (self.keeper.record().place, &self.device) {
            (JournalPlace::Fast, Some(fast)) => JournalDisks::fast(media, Arc::clone(fast)),
            (JournalPlace::Mirrored, Some(fast)) => JournalDisks::mirrored(media, Arc::clone(fast)),
            _ => JournalDisks::pool(media),
        }
    }

    /// Returns why writes that were acknowledged are lost, if they are. Fails if the user has to
    /// decide something.
    fn check(&self, placement: &JournalPlacement) -> Result<Option<String>> {
        let record = self.keeper.record();
        let needed = |_: &&String| record.contents == JournalContents::InUse;
        let Some(absent) = self.absent.as_ref().filter(needed) else {
            // Left in the command of a unit, it would give up a device that is only late.
            return match placement.device_lost {
                true => Err(invalid(
                    "nothing of the journal is on a lost device: start quintet serve without --journal-lost",
                )),
                false => Ok(None),
            };
        };
        let gives_up = placement.device_lost;
        match record.place {
            JournalPlace::Fast if gives_up => Ok(Some(format!(
                "the fast device that had the journal was given up as lost ({absent}): every volume may lack \
                 writes from the last moments before that"
            ))),
            JournalPlace::Mirrored if gives_up || placement.wanted == Some(JournalPlace::Pool) => {
                Ok(None)
            }
            JournalPlace::Mirrored => Err(invalid(format!(
                "the journal of the volumes is on a fast device and in the pool, and {absent}: {REMEDY}; \
                 {REMEDY_MIRRORED}"
            ))),
            JournalPlace::Fast | JournalPlace::Pool => Err(invalid(format!(
                "the journal of the volumes is on a fast device, and {absent}: {REMEDY}; {REMEDY_LOST}"
            ))),
        }
    }
}

/// Returns a record in place of one that cannot be read: the device says that it has the journal,
/// or the user that it is lost.
fn unreadable(
    pool: &Pool,
    placement: &JournalPlacement,
    found: &StoreError,
) -> Result<JournalPlaceRecord> {
    let id = pool.config().pool;
    let named = placement.fast.as_ref();
    let named = named.map(|fast| name_of_device(&**fast, id)).transpose()?;
    match named {
        // Whichever of both places has the writes: all of them are read.
        Some(DeviceName::Named(device)) => Ok(JournalPlaceRecord {
            place: JournalPlace::Mirrored,
            device,
            ..JournalPlaceRecord::default()
        }),
        _ if placement.device_lost => Ok(JournalPlaceRecord {
            place: JournalPlace::Fast,
            device: [0xff; 16],
            ..JournalPlaceRecord::default()
        }),
        _ => Err(StoreError::new(
            StoreErrorKind::Corruption,
            format!("{}: {REMEDY}; {REMEDY_LOST}", found.message),
        )),
    }
}

/// Returns why a disk is not the device of this name.
fn why_not(pool: &Pool, fast: Option<&Arc<dyn Disk>>, device: &[u8; 16]) -> Result<Option<String>> {
    let Some(fast) = fast else {
        return Ok(Some("no such device is given".to_owned()));
    };
    Ok(match name_of_device(&**fast, pool.config().pool)? {
        DeviceName::Named(name) if name == *device => None,
        other => Some(format!("the given one {}", words(&other))),
    })
}

/// Says what a device is that is not the wanted one.
fn words(name: &DeviceName) -> String {
    match name {
        DeviceName::Absent => "is not there: its directory is missing".to_owned(),
        DeviceName::Unnamed => "has no journal: it is empty, or another one".to_owned(),
        DeviceName::Foreign => "has the journal of another pool".to_owned(),
        DeviceName::Damaged(why) => format!("has a damaged name: {why}"),
        DeviceName::Named(_) => {
            "has another journal of this pool, perhaps an earlier one".to_owned()
        }
    }
}

fn invalid(why: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, why)
}

impl Volumes {
    /// Opens the volumes of a pool that is open for writing, and replays the journal, which is in
    /// the pool.
    pub fn open(pool: Arc<Pool>, options: &VolumesOptions) -> Result<Self> {
        Self::open_placed(&pool, options, &JournalPlacement::default())
    }

    /// Opens the volumes of a pool that is open for writing, and replays the journal. Then moves
    /// the journal, if it shall be elsewhere. Fails with `Invalid` if the user has to decide
    /// something: the device with the journal is absent, or cannot take it.
    pub fn open_placed(
        pool: &Arc<Pool>,
        options: &VolumesOptions,
        placement: &JournalPlacement,
    ) -> Result<Self> {
        let mut located = Located::of(pool, placement)?;
        let lost = located.check(placement)?;
        let record = *located.keeper.record();
        let target = match placement.wanted {
            Some(wanted) => wanted,
            None if located.absent.is_none() => record.place,
            None => JournalPlace::Pool,
        };
        if target == record.place && located.absent.is_none() {
            if located.is_recorded {
                located.keeper.write(JournalPlaceRecord {
                    contents: JournalContents::InUse,
                    ..record
                })?;
            }
            let disks = located.disks(pool.media());
            let volumes = Self::open_on(pool, options, &disks, located.keeper)?;
            volumes.mirror_again()?;
            return Ok(volumes);
        }
        let device = match target {
            JournalPlace::Pool => [0; 16],
            JournalPlace::Fast | JournalPlace::Mirrored => device_for(pool, placement, &located)?,
        };
        let is_empty =
            record.place != JournalPlace::Pool && record.contents == JournalContents::Empty;
        let disks = located.disks(pool.media());
        let kept = located.device.clone();
        let mut keeper = located.keeper;
        let mut damage = Vec::new();
        if !is_empty {
            let volumes = Self::open_on(pool, options, &disks, keeper)?;
            if let Some(why) = lost {
                volumes.note_lost_device(why)?;
            }
            volumes.empty_journal()?;
            damage = volumes.engine.losses.list();
            keeper = volumes.place.into_inner();
        }
        if let Some(fast) = placement
            .fast
            .as_ref()
            .filter(|_| target != JournalPlace::Pool)
            && device != record.device
        {
            name_device(&**fast, pool.config().pool, device)?;
        }
        if !pool.has_journal_place() {
            // A pool with the feature has a record.
            keeper.write(record)?;
            pool.add_journal_place()?;
        }
        keeper.write(JournalPlaceRecord {
            place: target,
            contents: JournalContents::InUse,
            device,
            ..record
        })?;
        match target {
            JournalPlace::Pool => kept.iter().for_each(|fast| forget_device(&**fast)),
            JournalPlace::Fast => forget_device(&*pool.media().disk),
            JournalPlace::Mirrored => {}
        }
        let media = pool.media();
        let disks = match (target, &placement.fast) {
            (JournalPlace::Fast, Some(fast)) => JournalDisks::fast(media, Arc::clone(fast)),
            (JournalPlace::Mirrored, Some(fast)) => JournalDisks::mirrored(media, Arc::clone(fast)),
            _ => JournalDisks::pool(media),
        };
        let volumes = Self::open_on(pool, options, &disks, keeper)?;
        volumes.engine.losses.remember(damage);
        Ok(volumes)
    }

    /// Records a loss whose extent only the journal's reach tells.
    fn note_lost_device(&self, found: String) -> Result<()> {
        let at = JournalPosition(self.pool().record().journal_position);
        let known = self.engine.losses.list();
        let end = known.iter().map(|damage| damage.end).max();
        self.engine.losses.add(JournalDamage {
            slot: None,
            at,
            end: end.unwrap_or_default().max(at),
            record: None,
            found,
        })
    }

    /// Applies everything that one disk lacks and another one has. On a full disk it stays as it
    /// is.
    fn mirror_again(&self) -> Result<()> {
        if !self.engine.backing.journal.is_degraded() {
            return Ok(());
        }
        let emptied = self
            .checkpoint()
            .and_then(|()| self.engine.checkpointer.trim_all());
        match emptied {
            Err(e) if !e.is_full() => Err(e),
            _ => Ok(()),
        }
    }

    /// Applies everything, so that the journal can move.
    fn empty_journal(&self) -> Result<()> {
        self.engine.flush()?;
        self.checkpoint()?;
        self.engine.flush()?;
        self.engine.checkpointer.trim_all()?;
        match self.is_journal_needed() {
            false => self.engine.backing.journal.forget_reach(),
            true => Err(invalid(
                "the journal cannot move, because writes to damaged volumes stay in it: start quintet serve \
                 without --journal-on, then run quintet repair",
            )),
        }
    }

    fn is_journal_needed(&self) -> bool {
        let head = self.engine.backing.journal.head();
        self.pool().record().journal_position < head.0
    }

    /// Notes that the journal holds nothing, if so, and ends it: the next process needs no device.
    pub(crate) fn note_empty_journal(&self) -> Result<()> {
        let mut place = self.place.lock();
        let record = *place.record();
        if record.place == JournalPlace::Pool {
            return Ok(());
        }
        let has_writes = |volume: &Arc<super::live::LiveVolume>| {
            let state = volume.state();
            state.frozen.is_some() || state.active.first_position().is_some()
        };
        if self.engine.registry.volumes().iter().any(has_writes) {
            return Ok(());
        }
        self.engine.backing.journal.end();
        match self.engine.checkpointer.trim_all() {
            Err(e) if e.is_full() => return Ok(()),
            trimmed => trimmed?,
        }
        if self.is_journal_needed() {
            return Ok(());
        }
        self.engine.backing.journal.forget_reach()?;
        place.write(JournalPlaceRecord {
            contents: JournalContents::Empty,
            ..record
        })
    }
}

/// Returns the name that the wanted device has or gets.
fn device_for(pool: &Pool, placement: &JournalPlacement, located: &Located) -> Result<[u8; 16]> {
    let Some(fast) = &placement.fast else {
        return Err(invalid(
            "the journal cannot be on a fast device, because none is given: add --fast and its directory",
        ));
    };
    let record = located.keeper.record();
    match name_of_device(&**fast, pool.config().pool)? {
        DeviceName::Unnamed => Ok(located.keeper.new_device()),
        DeviceName::Named(name) if located.absent.is_none() && name == record.device => Ok(name),
        other => Err(invalid(format!(
            "the journal cannot be on the given device, which {}: give another directory with --fast, or \
             remove the file journal-device and the directory journal there if no pool needs them",
            words(&other)
        ))),
    }
}
