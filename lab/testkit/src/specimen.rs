//! Small pools with known contents on a simulated disk, for the damage matrix and the golden pools.
//!
//! Invariant: the same seed makes the same pool, byte for byte. A specimen has every kind of
//! object: an image of two recipe levels with holes and duplicates, a stream, file trees with a
//! directory of several chunks, several commits, containers of both classes, all three codecs.

pub mod restore;
mod source;

use chunking::Compression;
use format::recipe::{Layout, ObjectRoot};
use format::snapshot::{Snapshot, SnapshotKind};
use media::{Media, SeededRandom};
use sim::{Image, SimDisk};
pub use source::entry;
use std::sync::Arc;
use store::{InitOptions, LaneOptions, NewSecret, ObjectBuilder, OpenMode, Pool, Result};
use store::{SecretKey, WriteSession};
use units::UnixNanos;

/// Memory of every pool in these tests, bytes.
pub const MEMORY_BYTES: usize = 16 << 20;

/// A pool, its expected contents, and its state one commit earlier.
pub struct Specimen {
    seed: u64,
    /// The secret that opens it.
    pub secret: Option<SecretKey>,
    /// All files.
    pub image: Image,
    /// All files before the last commit.
    pub older: Image,
    /// Snapshots with their contents, oldest first.
    pub truths: Vec<restore::Truth>,
    /// Number of snapshots that the last commit added.
    pub newest: usize,
}

/// Returns everything below the store, over `disk`. `seed` also decides salts and nonces.
pub fn media(disk: &Arc<SimDisk>, seed: u64) -> Media {
    let now = UnixNanos(seed as i64 * 1_000_000_000_000);
    Media::seeded(
        Arc::clone(disk) as _,
        now,
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    )
}

/// Opens the pool on `disk`.
pub fn open(
    disk: &Arc<SimDisk>,
    seed: u64,
    secret: Option<&SecretKey>,
    mode: OpenMode,
) -> Result<Pool> {
    Pool::open(media(disk, seed), secret, mode, MEMORY_BYTES)
}

/// Creates an unencrypted empty pool and opens it for writing. Returns its disk too.
pub fn new_pool() -> (Arc<SimDisk>, Pool) {
    let disk = SimDisk::unrecorded(Image::new());
    let init = InitOptions {
        secrets: &[],
        chunk_bytes_average: 4096,
        parity_percent: 0,
    };
    Pool::init(&media(&disk, 1), &init).expect("init");
    let pool = open(&disk, 2, None, OpenMode::Write).expect("open");
    (disk, pool)
}

/// Regions and containers are small, so that a small pool has several of each.
pub fn options(compression: Compression) -> LaneOptions {
    LaneOptions {
        compression,
        region_bytes: 8 << 10,
        container_bytes: 40 << 10,
    }
}

/// Returns bytes that zstd makes a quarter smaller, and that differ everywhere: regions of them are
/// as large as a lane's options say. Plain noise is stored in small ones.
pub fn dense(seed: u64, len: usize) -> Vec<u8> {
    noise(seed, len)
        .into_iter()
        .map(|byte| byte & 0x3f)
        .collect()
}

/// Returns incompressible bytes.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    media::Random::fill(&SeededRandom::new(seed), &mut bytes);
    bytes
}

impl Specimen {
    /// Creates the pool of `seed`.
    pub fn new(seed: u64, encrypted: bool) -> Self {
        Self::with_parity(seed, encrypted, 0)
    }

    /// Creates the pool of `seed` with parity in its containers.
    pub fn with_parity(seed: u64, encrypted: bool, parity_percent: u8) -> Self {
        let disk = SimDisk::unrecorded(Image::new());
        let recovery = SecretKey::Recovery([seed as u8; 32]);
        let password = SecretKey::Password(b"correct horse".to_vec());
        let secrets = [("recovery", &recovery), ("laptop", &password)]
            .map(|(label, secret)| NewSecret { secret, label });
        let init = InitOptions {
            secrets: if encrypted { &secrets } else { &[] },
            chunk_bytes_average: 4096,
            parity_percent,
        };
        Pool::init(&media(&disk, seed * 100), &init).expect("init");
        let secret = encrypted.then_some(recovery);
        let write = |n: u64| {
            open(&disk, seed * 100 + n, secret.as_ref(), OpenMode::Write).expect("open to write")
        };

        let mut truths = Vec::new();
        let first = source::image(seed);
        truths.push(store_image(&write(1), "disk", &first, Compression::Zstd(1)));
        truths.push(store_stream(&write(2), "dump", &source::stream(seed)));
        let tree = source::tree(seed);
        truths.push(store_tree(&write(3), "tree", &tree));
        let older = disk.image();

        let pool = write(4);
        let mut session = pool.begin(options(Compression::Lz4)).expect("begin");
        let second = source::image_changed(seed, &first);
        let image = put_image(&mut session, &second);
        let image = snapshot(&pool, SnapshotKind::Image, "disk", image);
        let changed = source::tree_changed(seed, &tree);
        let (root, objects) = changed.put(session.main());
        let tree = snapshot(&pool, SnapshotKind::Tree, "", root);
        let added = [
            restore::Truth::of_bytes(image, second),
            restore::Truth {
                snapshot: tree,
                objects,
            },
        ];
        let snapshots: Vec<_> = added.iter().map(|t| t.snapshot.clone()).collect();
        pool.commit(session, &snapshots, &[]).expect("commit");
        drop(pool);
        truths.extend(added);
        Self {
            seed,
            secret,
            image: disk.image(),
            older,
            truths,
            newest: 2,
        }
    }

    /// Backs up all sources again, in one commit each.
    pub fn store_again(&self, pool: &Pool) {
        let seed = self.seed;
        let (first, tree) = (source::image(seed), source::tree(seed));
        let with = Compression::Zstd(1);
        store_image(pool, "disk", &first, with);
        store_image(pool, "disk", &source::image_changed(seed, &first), with);
        store_stream(pool, "dump", &source::stream(seed));
        store_tree(pool, "tree", &tree);
        store_tree(pool, "tree", &source::tree_changed(seed, &tree));
    }

    /// Returns a disk with a copy of the pool.
    pub fn disk(&self) -> Arc<SimDisk> {
        SimDisk::unrecorded(self.image.clone())
    }

    /// Opens the pool on `disk`, which may be damaged.
    pub fn open(&self, disk: &Arc<SimDisk>, seed: u64, mode: OpenMode) -> Result<Pool> {
        open(disk, 1_000_000 + seed, self.secret.as_ref(), mode)
    }
}

/// Returns a snapshot's record.
pub fn snapshot(pool: &Pool, kind: SnapshotKind, name: &str, root: ObjectRoot) -> Snapshot {
    Snapshot {
        name: name.to_owned(),
        host: "host".to_owned(),
        user: "user".to_owned(),
        program: "specimen".to_owned(),
        paths: vec![b"/source".to_vec()],
        tags: vec!["daily".to_owned()],
        ..Snapshot::new(pool.new_snapshot_id(), pool.now(), kind, root)
    }
}

/// Stores bytes in fixed chunks of 4 KiB.
pub fn put_image(session: &mut WriteSession, bytes: &[u8]) -> ObjectRoot {
    let lane = session.main();
    let mut builder = ObjectBuilder::new(Layout::Fixed(12));
    for piece in bytes.chunks(1 << 12) {
        let mut chunk = piece.to_vec();
        chunk.resize(1 << 12, 0);
        let fingerprint = lane.store_chunk(&chunk).expect("store");
        builder
            .push(fingerprint, piece.len() as u64, &mut |n| lane.store_node(n))
            .expect("push");
    }
    builder.finish(&mut |n| lane.store_node(n)).expect("finish")
}

/// Stores one image in one commit.
pub fn store_image(pool: &Pool, name: &str, bytes: &[u8], with: Compression) -> restore::Truth {
    let mut session = pool.begin(options(with)).expect("begin");
    let root = put_image(&mut session, bytes);
    let snapshot = snapshot(pool, SnapshotKind::Image, name, root);
    pool.commit(session, std::slice::from_ref(&snapshot), &[])
        .expect("commit");
    restore::Truth::of_bytes(snapshot, bytes.to_vec())
}

/// Stores one stream in one commit.
pub fn store_stream(pool: &Pool, name: &str, bytes: &[u8]) -> restore::Truth {
    let mut session = pool.begin(options(Compression::Lz4)).expect("begin");
    let root = session.main().store_object(bytes, false).expect("store");
    let snapshot = snapshot(pool, SnapshotKind::Stream, name, root);
    pool.commit(session, std::slice::from_ref(&snapshot), &[])
        .expect("commit");
    restore::Truth::of_bytes(snapshot, bytes.to_vec())
}

/// Stores one tree in one commit.
pub fn store_tree(pool: &Pool, name: &str, tree: &source::Tree) -> restore::Truth {
    let mut session = pool.begin(options(Compression::None)).expect("begin");
    let (root, objects) = tree.put(session.main());
    let snapshot = snapshot(pool, SnapshotKind::Tree, name, root);
    pool.commit(session, std::slice::from_ref(&snapshot), &[])
        .expect("commit");
    restore::Truth { snapshot, objects }
}
