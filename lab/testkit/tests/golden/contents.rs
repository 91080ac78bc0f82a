//! The contents of the golden pools, and the helper that creates them. Run it once for a version:
//! `cargo test --profile ci -p testkit golden:: -- --ignored`. Existing pools are never written
//! again.

use super::manifest::{keep, manifest_of};
use chunking::Compression;
use format::snapshot::{Snapshot, SnapshotKind};
use format::tree::{Entry, EntryKind, Timestamp};
use sim::{Image, SimDisk};
use std::path::Path;
use store::{InitOptions, LaneOptions, NewSecret, OpenMode, Pool, SecretKey, WriteSession};
use testkit::specimen::{MEMORY_BYTES, media, noise, put_image, snapshot};

/// Password of the encrypted pools.
pub const PASSWORD: &[u8] = b"golden password";
/// Recovery key of the encrypted pools.
pub const RECOVERY: [u8; 32] = *b"thirty-two bytes of recovery key";

/// Creates a pool below `dir`, and the manifest beside it. With `code`, adds a session of machine
/// code; with `owners`, a snapshot with names of owners.
pub fn make(dir: &Path, encrypted: bool, code: bool, owners: bool, parity_percent: u8) {
    assert!(!dir.exists(), "golden pools are never written again");
    let disk = SimDisk::unrecorded(Image::new());
    let (password, recovery) = (
        SecretKey::Password(PASSWORD.into()),
        SecretKey::Recovery(RECOVERY),
    );
    let secrets = [("password", &password), ("recovery", &recovery)]
        .map(|(label, secret)| NewSecret { secret, label });
    let init = InitOptions {
        secrets: if encrypted { &secrets } else { &[] },
        chunk_bytes_average: 4096,
        parity_percent,
    };
    Pool::init(&media(&disk, 2026), &init).expect("init");
    let secret = encrypted.then_some(&recovery);
    let open = |seed, mode| Pool::open(media(&disk, seed), secret, mode, MEMORY_BYTES);
    let sessions = [
        (
            2027,
            Compression::Zstd(1),
            store_image as fn(&Pool, WriteSession),
        ),
        (2028, Compression::Lz4, store_stream),
        (2029, Compression::None, store_tree),
        (2032, Compression::Default, store_code),
    ];
    for (seed, compression, store) in sessions.into_iter().take(if code { 4 } else { 3 }) {
        let pool = open(seed, OpenMode::Write).expect("open to write");
        let options = LaneOptions {
            compression,
            region_bytes: 4 << 10,
            container_bytes: 12 << 10,
        };
        store(&pool, pool.begin(options).expect("begin"));
    }
    if owners {
        name_owners(&open(2033, OpenMode::Write).expect("open to write"));
    }
    label_often(&open(2030, OpenMode::Write).expect("open to write"));
    let manifest = manifest_of(&open(2031, OpenMode::Read).expect("open to read"));
    keep(dir, &disk.image(), &manifest);
}

/// Two levels of recipe, holes, a short last block, repeated blocks.
fn store_image(pool: &Pool, mut session: WriteSession) {
    let unique = noise(1, 2 * 4096);
    let mut bytes = Vec::new();
    for n in 0..270 {
        match n {
            100..150 => bytes.extend([0; 4096]),
            _ => bytes.extend(&unique[n % 2 * 4096..][..4096]),
        }
    }
    bytes.extend(b"the end");
    let root = put_image(&mut session, &bytes);
    let snapshot = snapshot(pool, SnapshotKind::Image, "disk", root);
    pool.commit(session, &[snapshot], &[]).expect("commit");
}

/// Content-defined chunks and a run of zeroes.
fn store_stream(pool: &Pool, mut session: WriteSession) {
    let mut bytes = b"a line that compresses\n".repeat(400);
    bytes.extend([0; 20_000]);
    bytes.extend(noise(2, 3000));
    let root = session.main().store_object(&bytes, false).expect("store");
    let snapshot = snapshot(pool, SnapshotKind::Stream, "dump", root);
    pool.commit(session, &[snapshot], &[]).expect("commit");
}

/// Machine code with near and far calls, forwards and backwards, and moves relative to `rip`.
pub fn code() -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in 0..600u32 {
        bytes.extend([0x55, 0x89, n as u8, 0xE8]);
        let target = n.wrapping_mul(n) % 23 * 300;
        bytes.extend(target.wrapping_sub(bytes.len() as u32 + 4).to_le_bytes());
        bytes.extend([0x48, 0x8D, 0x3D]);
        bytes.extend((0x1234_5678u32 >> (n % 9)).to_le_bytes());
    }
    bytes
}

fn store_code(pool: &Pool, mut session: WriteSession) {
    let root = session.main().store_object(&code(), false).expect("store");
    let snapshot = snapshot(pool, SnapshotKind::Stream, "code", root);
    pool.commit(session, &[snapshot], &[]).expect("commit");
}

/// Every type of entry, and everything that an entry can have.
fn store_tree(pool: &Pool, mut session: WriteSession) {
    let lane = session.main();
    let mut store = |bytes: &[u8], metadata| lane.store_object(bytes, metadata).expect("store");
    let file = |content, sparse| EntryKind::File { content, sparse };
    let inner = [
        entry("empty", file(store(b"", false), false), 0o600),
        entry("hello", file(store(b"hello, world\n", false), false), 0o644),
        entry("sparse", file(store(&[0; 9000], false), true), 0o640),
    ];
    let inner = store(&Entry::encode_directory(&inner), true);
    let nothing = store(&Entry::encode_directory(&[]), true);
    let mut linked = entry("linked", file(store(&noise(3, 1500), false), false), 0o4755);
    (linked.links, linked.inode) = (2, 77);
    linked.xattrs = vec![
        (b"security.capability".to_vec(), vec![1, 0, 0, 2]),
        (b"user.note".to_vec(), b"kept".to_vec()),
    ];
    let mut again = linked.clone();
    again.name = b"linked again".to_vec();
    let outer = [
        entry("block", EntryKind::BlockDevice { device: 0x800 }, 0o660),
        entry("char", EntryKind::CharDevice { device: 0x103 }, 0o666),
        entry("dir", EntryKind::Directory { content: inner }, 0o1777),
        entry("fifo", EntryKind::Fifo, 0o600),
        linked,
        again,
        entry("nothing", EntryKind::Directory { content: nothing }, 0o755),
        entry("socket", EntryKind::Socket, 0o600),
        entry(
            "symlink",
            EntryKind::Symlink {
                target: b"dir/hello".to_vec(),
            },
            0o777,
        ),
        Entry {
            name: b"\xff not text".to_vec(),
            ..entry("", EntryKind::Fifo, 0)
        },
    ];
    let root = store(&Entry::encode_directory(&outer), true);
    let mut snapshot = snapshot(pool, SnapshotKind::Tree, "", root);
    snapshot.tags = vec!["keep".to_owned(), "monthly".to_owned()];
    snapshot.signature = vec![1, 2, 3];
    snapshot.parent = pool.new_snapshot_id();
    (snapshot.files, snapshot.directories) = (11, 3);
    (snapshot.added_bytes, snapshot.duration_ms) = (5000, 1234);
    pool.commit(session, &[snapshot], &[]).expect("commit");
}

/// Adds a snapshot of the tree with names of its owners, and another that was rewritten from it.
fn name_owners(pool: &Pool) {
    let all = pool.snapshots().expect("sound");
    let tree = all.iter().find(|s| s.kind == SnapshotKind::Tree);
    let mut named = snapshot(pool, SnapshotKind::Tree, "", tree.expect("a tree").root);
    assert!(named.owners.add_user(1000, "alice") && named.owners.add_user(0, "root"));
    assert!(named.owners.add_group(100, "domain users"));
    let rewritten = Snapshot {
        id: pool.new_snapshot_id(),
        original: named.id,
        ..named.clone()
    };
    pool.change_snapshots(&[named, rewritten], &[])
        .expect("commit");
}

/// Adds so many and so long names for one object that the catalog has two levels.
fn label_often(pool: &Pool) {
    let first = pool.snapshots().expect("sound").remove(0);
    let labels: Vec<_> = (0..6u8)
        .map(|n| {
            let mut label = snapshot(pool, SnapshotKind::Image, "disk", first.root);
            label.paths = vec![vec![b'a' + n; 5000], b"/short".to_vec()];
            label
        })
        .collect();
    pool.change_snapshots(&labels, &[]).expect("commit");
}

fn entry(name: &str, kind: EntryKind, mode: u32) -> Entry {
    Entry {
        name: name.as_bytes().to_vec(),
        kind,
        mode,
        uid: 1000,
        gid: 100,
        modified: Timestamp {
            seconds: -1,
            nanos: 999_999_999,
        },
        changed: Timestamp {
            seconds: 1_800_000_000,
            nanos: 1,
        },
        inode: 42 + name.len() as u64,
        device: 64_512,
        links: 1,
        xattrs: Vec::new(),
    }
}
