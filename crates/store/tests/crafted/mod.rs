//! Whole pools from arbitrary bytes: mutated files of a small pool, and pools with valid checksums
//! and fingerprints but nonsensical nodes, as a broken or malicious writer makes them. The seeded
//! loops of `crafted_pools.rs` use this file, and the fuzz targets include it.
//!
//! Invariant of both: no panic, no hang, no unverified bytes.

#![allow(dead_code)]

mod nodes;

use chunking::Compression;
use format::bytes::Reader as Bytes;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use format::tree::EntryKind;
use media::Media;
use nodes::Crafted;
use sim::{Damage, Image, SimDisk};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{CheckDepth, ImageVolume, InitOptions, LaneOptions, OpenMode, Pool};
use units::{SnapshotId, UnixNanos};
use volume::{RequestContext, Volume};

const MEMORY_BYTES: usize = 4 << 20;
/// Number of bytes that are read of files and images, whatever length they claim.
const READ_BYTES: usize = 1 << 20;

fn media(disk: &Arc<SimDisk>, seed: u64) -> Media {
    let now = UnixNanos(seed as i64);
    Media::seeded(Arc::clone(disk) as _, now, seed)
}

fn options() -> LaneOptions {
    LaneOptions {
        compression: Compression::None,
        region_bytes: 2 << 10,
        container_bytes: 8 << 10,
    }
}

/// Creates a pool without snapshots.
pub fn empty() -> Image {
    let disk = SimDisk::unrecorded(Image::new());
    let init = InitOptions {
        secrets: &[],
        chunk_bytes_average: 4096,
        parity_percent: 0,
    };
    Pool::init(&media(&disk, 1), &init).expect("init");
    disk.image()
}

/// Creates a small pool with an image and a tree that contains it.
pub fn small() -> Image {
    let disk = SimDisk::unrecorded(empty());
    let mut steps = Vec::new();
    for block in [b"one".as_slice(), b"two", b"three"] {
        // A chunk of 4096 bytes.
        steps.extend([1, 0, block.len() as u8]);
        steps.extend(block);
    }
    // A fixed node of the three, an image of it, a directory with the image, and one with that
    // directory.
    steps.extend([2, 3, 1, 4, 0, 1, 2]);
    steps.extend([4, 3, 1, 4, 0x80, 0x60]);
    steps.extend([5, 1, 1]);
    steps.extend([5, 2, 2, 1]);
    craft(&disk, &steps).expect("a pool that works");
    disk.image()
}

/// Opens, lists, checks, sums up and reads everything that is readable. Returns how many objects
/// were read to their end.
pub fn exercise(disk: &Arc<SimDisk>, mode: OpenMode) -> usize {
    let Ok(pool) = Pool::open(media(disk, 3), None, mode, MEMORY_BYTES) else {
        return 0;
    };
    for depth in [CheckDepth::Structure, CheckDepth::ALL] {
        let _ = pool.check(depth, &mut |_, _| ControlFlow::Continue(()));
    }
    let _ = pool.space();
    let readable = pool.snapshots_readable();
    let snapshots = readable.map(|(snapshots, _)| snapshots).unwrap_or_default();
    let objects = snapshots.iter().map(|snapshot| read(&pool, snapshot)).sum();
    if mode == OpenMode::Write
        && let Ok(mut session) = pool.begin(options())
    {
        let _ = session.main().store_chunk(b"later");
        let _ = pool.commit(session, &[], &[]);
    }
    objects
}

fn read(pool: &Pool, snapshot: &Snapshot) -> usize {
    let mut rest = vec![(snapshot.root, snapshot.kind == SnapshotKind::Tree)];
    let (mut visits, mut whole) = (0, 0);
    while let Some((root, is_tree)) = rest.pop() {
        visits += 1;
        if visits > 50 {
            break;
        }
        whole += usize::from(read_object(pool, &root));
        if !is_tree {
            continue;
        }
        for entry in pool.reader().directory(&root).unwrap_or_default() {
            match entry.kind {
                EntryKind::Directory { content } => rest.push((content, true)),
                EntryKind::File { content, .. } => rest.push((content, false)),
                _ => {}
            }
        }
    }
    whole
}

/// Returns true if the object is not empty and completely readable.
fn read_object(pool: &Pool, root: &ObjectRoot) -> bool {
    let mut bytes = vec![0; READ_BYTES.min(root.len.min(1 << 30) as usize)];
    let last = root.len.saturating_sub(bytes.len() as u64);
    let volume = ImageVolume::new(Arc::clone(pool.reader()), *root, String::new());
    for from in [0, last / 2, last, u64::MAX - 3] {
        let _ = pool.reader().read_object(root, from, &mut bytes);
        let context = RequestContext::default();
        if from <= last {
            let _ = volume.read(context, from, &mut bytes);
            let _ = volume
                .capabilities()
                .is_cached(context, from, bytes.len() as u64);
        }
        let mut extents = 0;
        let _ = volume.extents(context, from, bytes.len() as u64, &mut |_| {
            extents += 1;
            match extents {
                1000 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
    }
    let whole = pool.reader().read_whole(root, READ_BYTES as u64);
    whole.is_ok_and(|bytes| !bytes.is_empty())
}

/// Damages files of `image` according to `steps`: six bytes a step.
pub fn mutated(image: &Image, steps: &[u8]) -> Arc<SimDisk> {
    let disk = SimDisk::unrecorded(image.clone());
    let files: Vec<_> = image
        .files()
        .into_iter()
        .filter(|(name, _)| !name.starts_with("cache"))
        .collect();
    for step in steps.as_chunks::<6>().0.iter().take(20) {
        let [file, action, high, low, a, b] = *step;
        let Some((name, len)) = files.get(usize::from(file) % files.len().max(1)) else {
            continue;
        };
        let offset = (u64::from(u16::from_be_bytes([high, low])) * (len + 1)) >> 16;
        let other = files[usize::from(a) % files.len()].0.clone();
        let damage = match action % 8 {
            0 => Damage::FlipBit(offset * 8 + u64::from(a)),
            1 => Damage::Zero {
                offset,
                len: u64::from(a),
            },
            2 => Damage::Overwrite {
                offset,
                bytes: vec![a, b],
            },
            3 => Damage::Overwrite {
                offset,
                bytes: u32::from_be_bytes([a, b, a, b]).to_le_bytes().to_vec(),
            },
            4 => Damage::SetLen(offset),
            5 => Damage::SetLen(len + u64::from(a)),
            6 => Damage::Swap(other),
            _ => Damage::Delete,
        };
        let _ = disk.damage(name, &damage);
    }
    disk
}

/// Builds nodes from `steps` and commits a snapshot of each resulting object.
pub fn craft(disk: &Arc<SimDisk>, steps: &[u8]) -> store::Result<()> {
    let pool = Pool::open(media(disk, 2), None, OpenMode::Write, MEMORY_BYTES)?;
    let mut session = pool.begin(options())?;
    let mut crafted = Crafted::default();
    let mut r = Bytes::new("steps", steps);
    let mut made = 0;
    while !r.is_empty() && made < 40 {
        made += 1;
        if crafted.step(session.main(), &mut r)?.is_none() {
            break;
        }
    }
    let snapshots: Vec<_> = (0..)
        .zip(crafted.objects)
        .map(|(n, (root, kind))| snapshot(n, root, kind))
        .collect();
    pool.commit(session, &snapshots, &[])?;
    Ok(())
}

fn snapshot(number: u8, root: ObjectRoot, kind: SnapshotKind) -> Snapshot {
    Snapshot::new(SnapshotId([number; 16]), UnixNanos(0), kind, root)
}
