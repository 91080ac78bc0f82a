//! A pool from init to reopening, on a real directory.

use chunking::Compression;
use format::recipe::Layout;
use format::snapshot::{Snapshot, SnapshotKind};
use media::{LocalDisk, Media, Syncing};
use sim::pool_histories::check_all;
use store::*;

struct Place(std::path::PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quintet-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn media(&self) -> Media {
        LocalDisk::new(&self.0).create_top().unwrap();
        let syncing = Syncing::Threads {
            threads: 2,
            queue: 4,
        };
        Media::local(&self.0, syncing)
    }

    fn pool(&self, secret: Option<&SecretKey>, mode: OpenMode) -> Result<Pool> {
        Pool::open(self.media(), secret, mode, 64 << 20)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options() -> LaneOptions {
    LaneOptions {
        compression: Compression::Zstd(1),
        region_bytes: 64 << 10,
        container_bytes: 256 << 10,
    }
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    media::Random::fill(&media::SeededRandom::new(seed), &mut bytes);
    bytes
}

fn image(pool: &Pool, name: &str, bytes: &[u8]) -> Snapshot {
    let mut session = pool.begin(options()).unwrap();
    let mut builder = ObjectBuilder::new(Layout::Fixed(14));
    for piece in bytes.chunks(1 << 14) {
        let mut chunk = piece.to_vec();
        chunk.resize(1 << 14, 0);
        let lane = session.main();
        let fingerprint = lane.store_chunk(&chunk).unwrap();
        builder
            .push(fingerprint, piece.len() as u64, &mut |n| lane.store_node(n))
            .unwrap();
    }
    let lane = session.main();
    let root = builder.finish(&mut |n| lane.store_node(n)).unwrap();
    let snapshot = Snapshot {
        name: name.to_owned(),
        host: "host".to_owned(),
        logical_bytes: bytes.len() as u64,
        ..Snapshot::new(
            pool.new_snapshot_id(),
            pool.now(),
            SnapshotKind::Image,
            root,
        )
    };
    pool.commit(session, std::slice::from_ref(&snapshot), &[])
        .unwrap();
    snapshot
}

fn read(pool: &Pool, snapshot: &Snapshot) -> Vec<u8> {
    pool.reader().read_whole(&snapshot.root, u64::MAX).unwrap()
}

fn sound(pool: &Pool) {
    let report = check_all(pool).unwrap();
    assert!(report.is_sound(), "{report:#?}");
}

#[test]
fn images_come_back_after_reopening_and_duplicates_are_stored_once() {
    let place = Place::new("images");
    let password = SecretKey::Password(b"secret".to_vec());
    let secrets = [NewSecret {
        secret: &password,
        label: "first",
    }];
    let init = InitOptions {
        secrets: &secrets,
        chunk_bytes_average: 32 << 10,
        parity_percent: 0,
    };
    Pool::init(&place.media(), &init).unwrap();
    assert_eq!(
        Pool::init(&place.media(), &init).unwrap_err().kind,
        StoreErrorKind::PoolExists
    );
    let mut bytes = noise(1, 3_000_001);
    bytes[100_000..900_000].fill(0);
    let first = {
        let pool = place.pool(Some(&password), OpenMode::Write).unwrap();
        assert_eq!(
            place
                .pool(Some(&password), OpenMode::Write)
                .err()
                .unwrap()
                .kind,
            StoreErrorKind::Locked
        );
        let first = image(&pool, "one", &bytes);
        assert_eq!(read(&pool, &first), bytes);
        sound(&pool);
        first
    };
    assert_eq!(
        place.pool(None, OpenMode::Read).err().unwrap().kind,
        StoreErrorKind::WrongKey
    );
    let pool = place.pool(Some(&password), OpenMode::Write).unwrap();
    let stored = pool.record().stored_bytes;
    let second = image(&pool, "two", &bytes);
    assert!(
        pool.record().stored_bytes - stored < 20_000,
        "an equal image costs next to nothing"
    );
    assert_eq!(second.root, first.root);
    // Without the index everything is found again.
    drop(pool);
    std::fs::remove_file(place.0.join("cache/fpi")).unwrap();
    for mode in [OpenMode::Read, OpenMode::Write, OpenMode::Read] {
        let pool = place.pool(Some(&password), mode).unwrap();
        let snapshots = pool.snapshots().unwrap();
        assert_eq!(
            snapshots
                .iter()
                .map(|s| s.name.as_str())
                .collect::<Vec<_>>(),
            ["one", "two"]
        );
        assert_eq!(read(&pool, &snapshots[1]), bytes);
        sound(&pool);
        let space = pool.space().unwrap();
        assert!(
            space.live_bytes > 2_000_000 && space.garbage_bytes < 100_000,
            "{space:?}"
        );
    }
}
