//! Long requests are filled straight from the regions that have their chunks. Every byte is right,
//! each region is read once, and what is hot stays in memory.

use crate::noise_volume;
use crate::small_volumes;

use noise_volume::*;
use sim::Seed;
use small_volumes::CONTEXT;
use testkit::specimen::noise;
use volume::{Durability, Volume};
use volumes::{Switches, Volumes};

fn write(volume: &dyn Volume, offset: u64, bytes: &[u8]) {
    let written = volume.write(CONTEXT, offset, bytes, Durability::Volatile);
    written.expect("write");
}

fn region_reads(volumes: &Volumes) -> u64 {
    volumes.pool().reader().counts().region_reads
}

/// Writes of any length and place, many of them with equal bytes, and zeroes; some in the journal,
/// some in containers. Chunks of several sizes, and memory that has room or not.
#[test]
fn long_reads_return_what_was_written() {
    const LEN: u64 = 6 << 20;
    for (seed, log2) in [(1, 12), (2, 14), (3, 12), (4, 13)] {
        let disk = disk_with_a_pool();
        let memory_bytes = [8 << 20, 64 << 20][seed as usize % 2];
        let open = || {
            let media = testkit::specimen::media(&disk, seed);
            open_with(media, &options(Switches::default(), memory_bytes))
        };
        let mut seed = Seed::new(seed);
        let mut model = vec![0; LEN as usize];
        let mut volumes = open();
        volumes.create("v", LEN, log2).expect("create");
        for step in 0..120 {
            let volume = volumes.volume("v").expect("volume");
            let longest = [5000, 200_000, 1_500_000][seed.below(3) as usize];
            let len = 1 + seed.below(longest);
            let at = seed.below(LEN - len);
            let range = at as usize..(at + len) as usize;
            match seed.below(6) {
                0 => model[range.clone()].fill(0),
                1 => model[range.clone()].copy_from_slice(&noise(7, len as usize)),
                _ => model[range.clone()].copy_from_slice(&noise(step, len as usize)),
            }
            write(&volume, at, &model[range]);
            match seed.below(8) {
                0 => volumes.checkpoint().expect("checkpoint"),
                1 => {
                    volumes.checkpoint().expect("checkpoint");
                    drop((volume, volumes));
                    volumes = open();
                }
                _ => {}
            }
            let volume = volumes.volume("v").expect("volume");
            let len = (128 << 10) + seed.below(2 << 20);
            let at = seed.below(LEN - len);
            let read = read(&volume, at, len);
            let expected = &model[at as usize..(at + len) as usize];
            assert!(read == expected, "step {step}, {len} bytes at {at}");
        }
    }
}

/// A volume whose pieces of 256 KiB are stored in another order: writers use several lanes.
#[test]
fn only_regions_that_a_request_needs_are_read() {
    const PIECE: u64 = 256 << 10;
    let disk = disk_with_a_pool();
    let open = || open(&disk, Switches::default());
    let volumes = open();
    let volume = volumes.create("v", SIZE, 12).expect("create");
    let pieces = SIZE / PIECE;
    let order = (0..pieces).step_by(2).chain((1..pieces).step_by(2));
    order.for_each(|n| write(&volume, n * PIECE, &noise(n, PIECE as usize)));
    volumes.checkpoint().expect("checkpoint");
    drop((volume, volumes));
    let volumes = open();
    let volume = volumes.volume("v").expect("volume");
    // Nothing of the others, which lie between: one request after the other would find those in
    // memory, but several in flight read them all.
    for n in (0..SIZE >> 20).step_by(3) {
        let before = region_reads(&volumes);
        let bytes = read(&volume, n << 20, 1 << 20);
        let of_piece = |p: u64| noise(4 * n + p, PIECE as usize);
        assert!(
            bytes == (0..4).flat_map(of_piece).collect::<Vec<_>>(),
            "{n}"
        );
        let (reads, regions) = (region_reads(&volumes) - before, (1 << 20) / REGION_BYTES);
        assert!(
            (regions..regions + 8).contains(&reads),
            "{reads} reads of {regions} regions"
        );
    }
}

#[test]
fn a_stream_evicts_nothing_that_is_hot() {
    let disk = disk_with_a_volume();
    let media = testkit::specimen::media(&disk, 3);
    let volumes = open_with(media, &options(Switches::default(), 8 << 20));
    let volume = volumes.volume("v").expect("volume");
    let hot: Vec<u64> = shuffled(4).into_iter().take(400).collect();
    for _ in 0..3 {
        hot.iter().for_each(|page| expect_page(&volume, *page));
    }
    for n in 0..SIZE >> 20 {
        assert!(read(&volume, n << 20, 1 << 20) == noise(n, 1 << 20), "{n}");
    }
    let before = region_reads(&volumes);
    hot.iter().for_each(|page| expect_page(&volume, *page));
    let reads = region_reads(&volumes) - before;
    assert!(reads <= 20, "{reads} of 400 hot pages left memory");
}
