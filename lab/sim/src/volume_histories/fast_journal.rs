//! Histories of volumes with a fast device, which has a tier, a copy of the index, and the journal
//! or a copy of it or nothing of it: after each crash the device is intact, absent, emptied, another
//! pool's, or in an earlier state; of a mirrored journal, either copy is lost or torn.
//! `tests/fast_journal.rs` uses them.
//!
//! Invariant: the volumes are in a state that the history allows with an intact device, or opening
//! them is refused until the user gives the device up, or they report lost writes, and again when
//! they are opened later. With a mirrored journal, and with one in the pool, no single fault loses
//! or reports anything.

use super::examine::{Found, examine, is_sound, snapshots_of, volumes_of};
use super::model::{VolumeChange, VolumeModel};
use super::ops::{VolumeOp, random_volume_ops};
use super::process::VolumeProcess;
use super::setup::{FAST, Files, fast_disk, fast_files, open_placed};
use crate::{Expected, History, Image, Scenario, Seed, SimDisk};
use format::journal_place::JournalPlace;
use media::{Barrier, Disk};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use volumes::{JournalPlacement, Volumes};

/// One history with a fast device.
pub struct FastJournalHistory {
    /// Name for reports.
    pub name: String,
    /// Decides contents, salts, identifiers.
    pub seed: u64,
    /// Where the journal is at the start.
    pub place: JournalPlace,
    /// Operations.
    pub ops: Vec<VolumeOp>,
    /// Files of the device when each process had opened it.
    opened: Mutex<Vec<Files>>,
    /// Chunks that checks read from the tier.
    hits: AtomicU64,
}

/// A fault of a device beside the power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DeviceFault {
    /// It is not given.
    Absent,
    /// Everything on it is lost.
    Emptied,
    /// It is that of another pool.
    Foreign,
    /// It is as it was when this process had opened it.
    Old(usize),
    /// Bytes of its slots are wrong. Only of a mirrored journal.
    Torn,
    /// The slots in the pool are lost. Only of a mirrored journal.
    PoolLost,
    /// Bytes of the slots in the pool are wrong. Only of a mirrored journal.
    PoolTorn,
}

/// Directory of the slots.
const SLOTS: &str = "journal";

fn words(e: impl std::fmt::Display) -> String {
    e.to_string()
}

impl FastJournalHistory {
    /// Creates a history.
    pub fn new(name: &str, seed: u64, place: JournalPlace, ops: Vec<VolumeOp>) -> Self {
        Self {
            name: name.to_owned(),
            seed,
            place,
            ops,
            opened: Mutex::default(),
            hits: AtomicU64::new(0),
        }
    }

    /// Random operations.
    pub fn random(seed: u64, place: JournalPlace, count: usize) -> Self {
        Self::new("random", seed, place, random_volume_ops(seed, count))
    }

    /// Returns how many chunks the checks of all states read from the tier.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// The journal is in this place at each moment.
    fn is_always(&self, place: JournalPlace) -> bool {
        let moves = |op: &VolumeOp| match op {
            VolumeOp::Killed(_, op) => matches!(**op, VolumeOp::MoveJournal(_)),
            op => matches!(op, VolumeOp::MoveJournal(_)),
        };
        self.place == place && !self.ops.iter().any(moves)
    }

    /// No fault of one device takes an acknowledged write.
    fn loses_nothing(&self) -> bool {
        self.is_always(JournalPlace::Mirrored) || self.is_always(JournalPlace::Pool)
    }

    fn faults(&self, model: &VolumeModel) -> Vec<DeviceFault> {
        let mut faults = vec![
            DeviceFault::Absent,
            DeviceFault::Emptied,
            DeviceFault::Foreign,
        ];
        if let Some(last) = model.opened {
            faults.push(DeviceFault::Old(last));
            faults.extend((last > 1).then_some(DeviceFault::Old(last / 2)));
        }
        if self.is_always(JournalPlace::Mirrored) {
            faults.extend([
                DeviceFault::Torn,
                DeviceFault::PoolLost,
                DeviceFault::PoolTorn,
            ]);
        }
        faults
    }

    /// Does to the disk what the fault says.
    fn spoil(&self, disk: &SimDisk, fault: DeviceFault) -> Result<(), String> {
        match fault {
            DeviceFault::Absent => Ok(()),
            DeviceFault::Emptied => replace(disk, FAST, &Files::new()),
            DeviceFault::Foreign => replace(disk, FAST, foreign()?),
            DeviceFault::Old(number) => {
                let opened = self.opened.lock();
                replace(disk, FAST, opened.get(number).ok_or("no such process")?)
            }
            DeviceFault::Torn => tear(disk, &format!("{FAST}/{SLOTS}"), self.seed),
            DeviceFault::PoolLost => replace(disk, SLOTS, &Files::new()),
            DeviceFault::PoolTorn => tear(disk, SLOTS, self.seed),
        }
    }

    /// Opens the volumes on the device with the fault. If that is refused, gives the device up.
    fn check_fault(
        &self,
        image: &Image,
        fault: DeviceFault,
        models: &[VolumeModel],
    ) -> Result<(), String> {
        let spoiled = || {
            let disk = SimDisk::unrecorded(image.clone());
            self.spoil(&disk, fault)?;
            Ok::<_, String>(disk)
        };
        let disk = spoiled()?;
        let salt = (self.seed << 11) + 3000;
        let given = JournalPlacement {
            fast: (fault != DeviceFault::Absent).then(|| fast_disk(&disk)),
            ..JournalPlacement::default()
        };
        let refused = match open_placed(&disk, self.seed, salt, &given) {
            Ok(volumes) => return self.judge(&volumes, models),
            Err(e) => words(e),
        };
        if self.is_always(JournalPlace::Pool) || !refused.contains("quintet serve with --") {
            return Err(format!("refused without a reason or a remedy: {refused}"));
        }
        let disk = spoiled()?;
        let given_up = JournalPlacement {
            fast: None,
            wanted: Some(JournalPlace::Pool),
            device_lost: true,
        };
        let volumes = open_placed(&disk, self.seed, salt, &given_up).map_err(words)?;
        self.judge(&volumes, models)?;
        let lost = volumes.lost_writes();
        drop(volumes);
        let volumes = open_placed(&disk, self.seed, salt + 1, &JournalPlacement::default());
        let volumes = volumes.map_err(words)?;
        match volumes.lost_writes() == lost {
            true => self.judge(&volumes, models),
            false => Err(format!("{lost:?} was lost and is forgotten")),
        }
    }

    /// Returns what is wrong with volumes that were opened without an intact device.
    fn judge(&self, volumes: &Volumes, models: &[VolumeModel]) -> Result<(), String> {
        is_sound(volumes)?;
        let (found, snapshots) = (volumes_of(volumes)?, snapshots_of(volumes)?);
        let refusal = |model: &VolumeModel| model.refuses(&found, &snapshots);
        let fits = models.iter().any(|model| refusal(model).is_none());
        let lost = volumes.lost_writes();
        let is_named = !lost.0.is_empty();
        if self.loses_nothing() && is_named {
            return Err(format!("reported as lost, and is elsewhere: {lost:?}"));
        }
        if !is_named && !fits {
            let why: Vec<_> = models.iter().filter_map(refusal).collect();
            return Err(format!("lost and not reported: {}", why.join("; or: ")));
        }
        let same_names = |model: &VolumeModel| is_of(model, &found, &snapshots);
        match models.iter().any(same_names) {
            true => Ok(()),
            false => Err(format!("other volumes: {:?}", found.keys())),
        }
    }
}

/// Returns true if these are the volumes and the snapshots, whatever the volumes have.
fn is_of(model: &VolumeModel, found: &Found, snapshots: &Found) -> bool {
    found.keys().eq(model.volumes.keys()) && *snapshots == model.snapshots
}

/// Replaces all files below a directory.
fn replace(disk: &SimDisk, directory: &str, files: &Files) -> Result<(), String> {
    for (path, _) in disk.image().files_below(directory) {
        disk.remove(&path).map_err(words)?;
    }
    for (path, bytes) in files {
        if let Some((parent, _)) = path.rsplit_once('/') {
            disk.make_dir(parent).map_err(words)?;
        }
        let file = disk.open(path, true).map_err(words)?;
        file.write_at(0, bytes).map_err(words)?;
    }
    Ok(())
}

/// Makes some bytes of all files of a directory wrong.
fn tear(disk: &SimDisk, directory: &str, seed: u64) -> Result<(), String> {
    let mut seed = Seed::new(seed);
    for (path, len) in disk.image().files_below(directory) {
        let file = disk.open(&path, false).map_err(words)?;
        for _ in 0..6.min(len) {
            let at = seed.below(len);
            let mut byte = [0];
            file.read_at(at, &mut byte).map_err(words)?;
            file.write_at(at, &[byte[0] ^ 0x41]).map_err(words)?;
        }
    }
    Ok(())
}

/// Returns the files of the device of another pool.
fn foreign() -> Result<&'static Files, String> {
    static FILES: OnceLock<Result<Files, String>> = OnceLock::new();
    let made = FILES.get_or_init(|| {
        let disk = SimDisk::new();
        make_device(&disk)?;
        let history = History::new(Arc::clone(&disk));
        let mut process = VolumeProcess::start(&disk, &history, 90, Some(JournalPlace::Fast))?;
        for op in [
            VolumeOp::Create(64, 12),
            VolumeOp::Write(0, 0, 24),
            VolumeOp::Flush(0),
        ] {
            process.run(&op)?;
        }
        let files = fast_files(&disk);
        drop(process.finish());
        Ok(files)
    });
    made.as_ref().map_err(Clone::clone)
}

fn make_device(disk: &SimDisk) -> Result<(), String> {
    disk.make_dir(FAST).map_err(words)?;
    disk.sync_dir("", Barrier::DirectoryBeforeNames)
        .map_err(words)
}

impl Scenario for FastJournalHistory {
    type Op = VolumeChange;
    type Model = VolumeModel;

    fn apply(&self, model: &mut VolumeModel, change: &VolumeChange) {
        model.apply(change);
    }

    fn run(&self, disk: &Arc<SimDisk>, history: &History<VolumeChange>) -> Result<(), String> {
        make_device(disk)?;
        let mut process = VolumeProcess::start(disk, history, self.seed, Some(self.place))?;
        history.explore_from_here();
        for (number, op) in self.ops.iter().enumerate() {
            process
                .run(op)
                .map_err(|why| format!("operation {number}, {op:?}: {why}"))?;
        }
        *self.opened.lock() = process.finish();
        Ok(())
    }

    fn check(&self, disk: &Arc<SimDisk>, expected: &Expected<Self>) -> Result<(), String> {
        let image = disk.image();
        let hits = examine(disk, self.seed, &expected.models, Some(fast_disk(disk)))?;
        self.hits.fetch_add(hits, Ordering::Relaxed);
        for fault in self.faults(&expected.acked) {
            self.check_fault(&image, fault, &expected.models)
                .map_err(|why| format!("{fault:?}: {why}"))?;
        }
        Ok(())
    }
}

/// The scripted histories: name, first place of the journal, operations.
pub fn fast_journal_scripts() -> Vec<(&'static str, JournalPlace, Vec<VolumeOp>)> {
    use JournalPlace::{Fast, Mirrored, Pool};
    use VolumeOp::{
        Checkpoint, Close, Create, Discard, Flush, Killed, MoveJournal, Reopen, Snapshot, Step,
        Write, WriteDurable, WriteKnown,
    };
    let killed = |after, op| Killed(after, Box::new(op));
    let served = vec![
        Create(128, 12),
        Write(0, 0, 16),
        Flush(0),
        Write(0, 4, 40),
        WriteDurable(0, 60, 8),
        WriteKnown(0, 64, 64),
        Flush(0),
        Step(8192),
        Write(0, 2, 3),
        Flush(0),
        Checkpoint,
        Write(0, 1, 9),
        Reopen,
        Write(0, 6, 9),
        Flush(0),
        Snapshot(0),
        Close,
        Write(0, 8, 20),
        killed(3, Flush(0)),
        WriteDurable(0, 40, 3),
        killed(20, Checkpoint),
        Discard(0, 8, 16),
        Flush(0),
    ];
    vec![
        ("served", Fast, served.clone()),
        ("served, journal in the pool", Pool, served.clone()),
        ("mirrored", Mirrored, served),
        (
            "moved",
            Pool,
            vec![
                Create(96, 12),
                Write(0, 0, 40),
                Flush(0),
                MoveJournal(Fast),
                Write(0, 3, 30),
                Flush(0),
                Write(0, 9, 3),
                MoveJournal(Mirrored),
                WriteDurable(0, 20, 4),
                Write(0, 24, 4),
                MoveJournal(Pool),
                WriteDurable(0, 7, 30),
                Close,
                WriteDurable(0, 50, 9),
            ],
        ),
        (
            "moved while killed",
            Pool,
            std::iter::once(Create(96, 12))
                .chain((0..8).flat_map(|n| {
                    let place = [Fast, Pool, Mirrored, Fast][n as usize % 4];
                    [
                        WriteDurable(0, n * 8, 9),
                        killed(3 + 2 * n, MoveJournal(place)),
                        WriteDurable(0, n * 8 + 4, 3),
                    ]
                }))
                .collect(),
        ),
        (
            "ended",
            Fast,
            vec![
                Create(64, 13),
                WriteDurable(0, 0, 30),
                Close,
                Close,
                WriteDurable(0, 4, 9),
                killed(5, Close),
                WriteDurable(0, 8, 9),
                killed(11, Close),
                Write(0, 1, 1),
                Close,
                MoveJournal(Pool),
                WriteDurable(0, 3, 3),
                MoveJournal(Fast),
                WriteDurable(0, 5, 3),
            ],
        ),
    ]
}
