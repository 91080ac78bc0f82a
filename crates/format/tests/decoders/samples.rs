//! Provides valid objects of every kind, from which mutations start.

mod index;
mod journal;
mod snapshot;
mod tier;

pub use index::index_header;
pub use journal::{JOURNAL_AT, JOURNAL_SLOT};

use super::POOL;
use format::bytes::Writer;
use format::collect::{CollectNote, CollectRecord, SizeSample, Urgency};
use format::config::{BoundConfig, Codec, Config, Seal};
use format::container::{
    ContainerClass, ContainerHeader, Directory, DirectoryRegion, RegionHeader,
};
use format::damage_hints::DamageHintsRecord;
use format::defrag::{
    DefragMove, DefragObject, DefragRange, DefragRecord, DefragReport, DefragStage, DefragToll,
    DefragWish,
};
use format::failed_streams::FailedStreams;
use format::host_scrub::{FileVerdict, HostScrubFile, HostScrubFinding, HostScrubRecord};
use format::host_trace::{HostTrace, HostTraceFile, HostTraceRange};
use format::journal_place::{JournalContents, JournalPlace, JournalPlaceRecord};
use format::key_slot::{KeyDerivation, KeySlot};
use format::known::KnownPool;
use format::map_node::{MapChild, MapNode};
use format::moved::MovedRecord;
use format::parity::{ParityShape, append};
use format::phase::TaskPhase;
use format::reach::{ReachRange, ReachRecord};
use format::reader_hold::ReaderHold;
use format::recipe::{Layout, ObjectRoot, RecipeNode};
use format::reservations::{RegistrationRecord, ReservationRecord, ReservationsRecord};
use format::root::{RootRecord, StoredRoot};
use format::scrub::{Pass, ScrubRecord};
use format::trace::{TraceEntry, TraceRecord};
use format::trash_minimum::TrashMinimum;
use format::tree::{Entry, EntryKind, Timestamp};
use format::volume::VolumeRecord;
use units::{
    ContainerId, Fingerprint, Generation, JournalPosition, SnapshotId, UnixNanos, VolumeId,
    WriterId,
};

/// Returns samples of a decoder, by its name.
pub fn of(name: &str) -> Vec<Vec<u8>> {
    match name {
        "config" => [Seal::None, Seal::Aes256Gcm].map(config).to_vec(),
        "key_slot" => slots().map(|slot| slot.encode()).to_vec(),
        "root" | "mirrored" => roots(),
        "container" => container(),
        "parity" => parity(),
        "directory" => vec![directory().encode(), Directory::default().encode()],
        "recipe_node" => recipes(),
        "map_node" => maps().map(|node| node.encode()).to_vec(),
        "tree" => vec![
            Entry::encode_directory(&entries()),
            Entry::encode_directory(&[]),
        ],
        "snapshot" => snapshot::all(),
        "volume" => volumes(),
        "index_header" => vec![
            index_header().encode(),
            [index_header().encode(), index_header().encode()].concat(),
        ],
        "index_bucket" => vec![index::bucket()],
        "index_tail" => vec![index::tail()],
        "index_stamp" => vec![index::stamp()],
        "journal_slot" => journal::pages(),
        "journal_record" => journal::headers(),
        "journal_place" => vec![
            journal_place().encode(POOL),
            JournalPlaceRecord::default().encode(POOL),
        ],
        "scrub" => vec![scrub().encode(POOL), ScrubRecord::default().encode(POOL)],
        "reach" => vec![reach(0, 0).encode(POOL), reach(3, 2).encode(POOL)],
        "collect" => vec![
            collect().encode(POOL),
            CollectRecord::default().encode(POOL),
        ],
        "damage_hints" => vec![
            damage_hints().encode(POOL),
            DamageHintsRecord::default().encode(POOL),
        ],
        "failed_streams" => vec![
            failed_streams().encode(POOL),
            FailedStreams::default().encode(POOL),
        ],
        "reader_hold" => vec![
            reader_hold().encode(POOL),
            ReaderHold::default().encode(POOL),
        ],
        "defrag" => vec![defrag().encode(POOL), DefragRecord::default().encode(POOL)],
        "moved" => vec![moved().encode(POOL), MovedRecord::default().encode(POOL)],
        "trace" => vec![trace().encode(POOL), TraceRecord::default().encode(POOL)],
        "host_scrub" => vec![host_scrub().encode()],
        "host_trace" => vec![host_trace().encode(), HostTrace::default().encode()],
        "known" => known(),
        "trash_minimum" => vec![
            TrashMinimum {
                seconds: 30 * 86_400,
                guards: vec![*b"recovery", [7; 8]],
            }
            .encode(),
            TrashMinimum::default().encode(),
        ],
        "reservations" => reservations(),
        "tier_block" => tier::blocks(),
        other => panic!("no samples for {other}"),
    }
}

fn reservations() -> Vec<Vec<u8>> {
    let registration = |n: u8| RegistrationRecord {
        initiator: format!("iqn.2026-11.org.example:{n}"),
        isid: [n; 6],
        key: u64::from(n) << 32 | 5,
    };
    let record = |registrations: u8, held| ReservationsRecord {
        registrations: (0..registrations).map(registration).collect(),
        held,
    };
    let held = |kind, holder| Some(ReservationRecord { kind, holder });
    let all = [
        record(1, None),
        record(2, held(1, 1)),
        record(3, held(8, 0)),
    ];
    all.map(|record| record.encode()).to_vec()
}

/// Keys have one byte, a name of three bytes, and the value follows.
fn volumes() -> Vec<Vec<u8>> {
    let volume = |origin, changes| VolumeRecord {
        name: "web".to_owned(),
        id: VolumeId([3; 16]),
        root: object(),
        made: UnixNanos(1_790_000_000_000_000_000),
        applied: JournalPosition(7 << 30),
        origin: SnapshotId([origin; 16]),
        changes,
    };
    [volume(0, 0), volume(9, 1 << 40)]
        .map(|volume| [volume.key(), volume.encode()].concat())
        .to_vec()
}

fn damage_hints() -> DamageHintsRecord {
    DamageHintsRecord {
        sequence: 3,
        places: (0..9).map(|n| (ContainerId(n << 40), n as u32)).collect(),
    }
}

fn failed_streams() -> FailedStreams {
    FailedStreams {
        streams: vec![
            ("db.sql".to_owned(), UnixNanos(1_790_000_000_000_000_000)),
            (
                "mail/queue".to_owned(),
                UnixNanos(1_790_000_000_000_000_001),
            ),
        ],
    }
}

fn journal_place() -> JournalPlaceRecord {
    JournalPlaceRecord {
        sequence: 5,
        place: JournalPlace::Mirrored,
        contents: JournalContents::Empty,
        device: [9; 16],
    }
}

fn reader_hold() -> ReaderHold {
    ReaderHold {
        generation: Generation(12),
        since: UnixNanos(1_790_000_000_000_000_000),
        label: "restore, process 4711 on host".to_owned(),
    }
}

fn known() -> Vec<Vec<u8>> {
    let known = |seal, place: &[u8]| KnownPool {
        pool: POOL,
        generation: Generation(77),
        seen: UnixNanos(5),
        seal,
        place: place.to_vec(),
    };
    vec![
        known(Seal::Aes256Gcm, b"/srv/pool").encode(),
        known(Seal::None, b"").encode(),
    ]
}

fn reach(volumes: u8, losses: u8) -> ReachRecord {
    let range = |n: u8| ReachRange {
        volume: VolumeId([n; 16]),
        start: u64::from(n) << 12,
        len: 4096,
        is_chunks: n % 2 == 1,
    };
    ReachRecord {
        sequence: 9,
        first: JournalPosition(4096),
        reached: JournalPosition(1 << 20),
        slot: 2,
        seal: Seal::None,
        more_volumes: losses > 0,
        volumes: (0..volumes).map(range).collect(),
        losses: (0..losses).map(range).collect(),
        more_losses: u32::from(losses),
        salt: [3; 32],
        tag: [0; 16],
    }
}

fn collect() -> CollectRecord {
    CollectRecord {
        sequence: 6,
        since: UnixNanos(1_790_000_000_000_000_000),
        last: CollectNote {
            at: UnixNanos(1_790_000_600_000_000_000),
            urgency: Urgency::Low,
            by_command: true,
            is_complete: true,
            deleted_bytes: 1 << 30,
            discarded_bytes: 1 << 20,
            stored_bytes: 1 << 40,
            ahead_by: Some(Generation(12)),
        },
        without_effect: [3, 0, 1],
        ahead_seen: UnixNanos(1_790_000_300_000_000_000),
        samples: std::array::from_fn(|n| SizeSample {
            at: UnixNanos(1_780_000_000_000_000_000 + n as i64),
            stored_bytes: n as u64,
        }),
    }
}

fn defrag() -> DefragRecord {
    let one = |n: u64| DefragMove {
        object: 77,
        parts: (0..n).map(|part| part << 20..(part << 20) + 4096).collect(),
        weight: 256,
        runs: n,
        hurts: 0,
        is_small: n == 2,
    };
    DefragRecord {
        sequence: 5,
        report: DefragReport {
            phase: TaskPhase::UnderWay,
            stage: DefragStage::Estimating,
            wish: DefragWish {
                is_traced: true,
                hot_percent: 50,
                ..DefragWish::default()
            },
            began: UnixNanos(1_790_000_000_000_000_000),
            cursor: 77,
            before: DefragToll {
                weight: 1 << 70,
                ..DefragToll::default()
            },
            ..DefragReport::default()
        },
        objects: vec![DefragObject::default(); 3],
        ranges: vec![DefragRange::default(); 2],
        moves: (0..3).map(one).collect(),
    }
}

fn moved() -> MovedRecord {
    MovedRecord {
        sequence: 3,
        entries: 40,
        words: (0..16).map(|n| 0x0101_0101 << n).collect(),
    }
}

fn host_scrub() -> HostScrubRecord {
    let file = |n: u64| HostScrubFile {
        parts_done: n << 5,
        verdict: FileVerdict::Changed,
    };
    let finding = |n: u64| HostScrubFinding {
        path: b"some/where".to_vec(),
        rotten: (0..n).map(|n| (n << 20)..(n << 20) + 512).collect(),
        unreadable: (1..n).map(|n| (n << 30)..(n << 30) + 4096).collect(),
    };
    HostScrubRecord {
        pool: POOL,
        snapshot: SnapshotId([7; 16]),
        options: 0x1234_5678_9abc_def0,
        began: UnixNanos(1_790_000_000_000_000_000),
        path: b"/srv".to_vec(),
        files: (0..3).map(|n| (n, file(n))).collect(),
        findings: (0..3).map(|n| (n << 9, finding(n))).collect(),
        progress: (0..40).collect(),
        ..HostScrubRecord::default()
    }
}

fn host_trace() -> HostTrace {
    let range = |n: u64| HostTraceRange {
        start: n << 17,
        end: (n << 17) + (4096 << n),
        weight: 256 * (n + 1),
    };
    let file = |n: u64| HostTraceFile {
        root: 5 * n,
        inode: 257 + n,
        generation: 0x9876_5432,
        ranges: (0..4).map(range).collect(),
    };
    HostTrace {
        file_system: 0x1234_5678_9abc_def0,
        began: UnixNanos(1_790_000_000_000_000_000),
        ended: UnixNanos(1_790_000_060_000_000_000),
        requests: 1000,
        lost: 3,
        is_exact: true,
        files: (0..3).map(file).collect(),
    }
}

fn trace() -> TraceRecord {
    let entry = |n: u64| TraceEntry {
        object: 77,
        start: n << 17,
        end: (n + 1) << 17,
        weight: 256 * n,
    };
    TraceRecord {
        sequence: 4,
        requests: 1000,
        entries: (0..4).map(entry).collect(),
    }
}

fn scrub() -> ScrubRecord {
    ScrubRecord {
        sequence: 7,
        phase: TaskPhase::UnderWay,
        pass: Pass {
            began: UnixNanos(1_790_000_000_000_000_000),
            containers: 12,
            ..Pass::default()
        },
        last: Pass::default(),
        progress: vec![9; 40],
    }
}

fn print(n: u8) -> Fingerprint {
    Fingerprint([n; 32])
}

fn config(seal: Seal) -> Vec<u8> {
    let config = Config {
        pool: POOL,
        features_compat: 5,
        features_ro_compat: 0,
        features_incompat: 0,
        created: UnixNanos(1_790_000_000_000_000_000),
        seal,
        clear_master_key: [if seal == Seal::None { 3 } else { 0 }; 32],
        splitter: 1,
        chunk_bytes_average: 16 << 10,
        parity_percent: 2,
    };
    config.encode()
}

fn slots() -> [KeySlot; 3] {
    let argon = KeyDerivation::Argon2id {
        memory_kib: 32 << 10,
        passes: 1,
        lanes: 1,
    };
    let bound = BoundConfig {
        created: UnixNanos(6),
        seal: Seal::Aes256Gcm,
        splitter: 1,
        chunk_bytes_average: 32 << 10,
    };
    let kinds = [
        (argon, None),
        (KeyDerivation::Recovery, None),
        (argon, Some(bound)),
    ];
    kinds.map(|(derivation, config)| KeySlot {
        pool: POOL,
        id: *b"slot one",
        label: "laptop".to_owned(),
        created: UnixNanos(-5),
        derivation,
        salt: [9; 32],
        config,
        wrapped: [8; 48],
    })
}

fn roots() -> Vec<Vec<u8>> {
    let record = RootRecord {
        committed: UnixNanos(77),
        catalog: Some(print(4)),
        catalog_entries: 12,
        next_sequence: [(WriterId(1), 900), (WriterId(4), 1)].into(),
        stored_bytes: 1 << 40,
        containers: 901,
        journal_position: 0,
    };
    let records = [record, RootRecord::default()];
    let stored = |record: &RootRecord| StoredRoot {
        pool: POOL,
        generation: Generation(41),
        seal: Seal::None,
        nonce: [1; 12],
        body: record.encode(),
    };
    let blobs = records.iter().map(|record| stored(record).encode());
    let bodies = records.iter().map(RootRecord::encode);
    blobs.chain(bodies).collect()
}

/// Returns the id of the sample container with parity.
pub fn parity_id() -> ContainerId {
    ContainerId::new(WriterId(1), 9)
}

/// Returns a container of one sector of data, and the same with damaged sectors.
fn parity() -> Vec<Vec<u8>> {
    let id = parity_id();
    let shape = ParityShape::plan(3000, 2).expect("a shape");
    let header = ContainerHeader {
        pool: POOL,
        id,
        class: ContainerClass::Data,
        seal: Seal::None,
        salt: [6; 32],
        region_count: 1,
        directory_sector: 4,
        blob_bytes: shape.blob_bytes() as u32,
        generation: Generation(8),
        parity: Some(shape),
    };
    let mut blob = header.encode(false);
    blob.resize(3000, 0x5a);
    append(POOL, id, shape, &mut blob);
    let mut without_header = blob.clone();
    without_header[..4096].fill(0);
    let table = blob[4096..8192].to_vec();
    vec![blob, without_header, table]
}

fn container() -> Vec<Vec<u8>> {
    let header = ContainerHeader {
        pool: POOL,
        id: ContainerId::new(WriterId(1), 9),
        class: ContainerClass::Recipe,
        seal: Seal::Aes256Gcm,
        salt: [6; 32],
        region_count: 3,
        directory_sector: 40,
        blob_bytes: 50 * 512,
        generation: Generation(8),
        parity: None,
    };
    let payload = b"payload";
    let region = RegionHeader {
        container: header.id,
        index: 2,
        codec: Codec::Zstd,
        stored_bytes: payload.len() as u32,
        raw_bytes: 100,
        chunk_count: 3,
        payload_checksum: RegionHeader::checksum_payload(header.id, 2, payload),
    };
    let mut raw = Writer::new();
    raw.u32(2).bytes(b"onethree").u32(3).u32(5);
    vec![
        header.encode(false),
        header.encode(true),
        region.encode(),
        raw.0,
    ]
}

fn directory() -> Directory {
    let region = |sector, chunks: &[u8]| DirectoryRegion {
        sector,
        stored_bytes: 3000,
        chunks: chunks
            .iter()
            .map(|n| (print(*n), 1000 + u32::from(*n)))
            .collect(),
    };
    Directory {
        regions: vec![region(1, &[1, 2, 3]), region(8, &[]), region(9, &[4])],
    }
}

fn recipes() -> Vec<Vec<u8>> {
    let variable = RecipeNode {
        level: 2,
        layout: Layout::Variable,
        children: vec![print(1), Fingerprint::HOLE, print(2)],
        lengths: vec![16_000, 1 << 33, 1],
    };
    let fixed = RecipeNode {
        level: 1,
        layout: Layout::Fixed(12),
        children: (0..20).map(print).collect(),
        lengths: Vec::new(),
    };
    let roots = [object(), ObjectRoot::EMPTY].map(|root| {
        let mut w = Writer::new();
        root.encode(&mut w);
        w.0
    });
    [variable.encode(), fixed.encode()]
        .into_iter()
        .chain(roots)
        .collect()
}

fn object() -> ObjectRoot {
    ObjectRoot {
        fingerprint: print(11),
        len: 1 << 35,
        level: 3,
        layout: Layout::Fixed(14),
    }
}

fn maps() -> [MapNode; 2] {
    let pair = |n: u8| (vec![b's', n], vec![n; usize::from(n)]);
    let child = |n: u8| MapChild {
        first_key: vec![b'c', n],
        fingerprint: print(n),
    };
    [
        MapNode::Leaf((0..20).map(pair).collect()),
        MapNode::Inner(2, (0..9).map(child).collect()),
    ]
}

fn entries() -> Vec<Entry> {
    let kinds = [
        EntryKind::BlockDevice { device: 0x801 },
        EntryKind::CharDevice { device: 5 },
        EntryKind::Directory { content: object() },
        EntryKind::Fifo,
        EntryKind::File {
            content: ObjectRoot::EMPTY,
            sparse: false,
        },
        EntryKind::File {
            content: object(),
            sparse: true,
        },
        EntryKind::Socket,
        EntryKind::Symlink {
            target: b"../target".to_vec(),
        },
    ];
    let time = Timestamp {
        seconds: -3,
        nanos: 999_999_999,
    };
    (0u64..)
        .zip(kinds)
        .map(|(n, kind)| Entry {
            name: format!("name {n}").into_bytes(),
            kind,
            mode: 0o755,
            uid: 1000,
            gid: 100,
            modified: time,
            changed: time,
            inode: 1 << (7 * n),
            device: 64_768,
            links: n,
            xattrs: (0..n % 3)
                .map(|x| (format!("user.{x}").into_bytes(), vec![0, 255]))
                .collect(),
        })
        .collect()
}
