//! Containers are read back in every way there is, wherever in their sectors regions begin.

use super::*;
use crate::superblock::MasterKey;
use chunking::{Compression, Compressor};
use format::config::Seal;
use format::container::{ContainerClass, Directory, RegionHeader, find_region, sectors_max};
use media::{Media, Put, Random, SeededRandom};
use sim::{BadSectors, Damage, Image, SimDisk};
use std::sync::Arc;
use units::{ContainerId, Fingerprint, Generation, PoolId, WriterId};

const POOL: PoolId = PoolId([3; 16]);

fn id() -> ContainerId {
    ContainerId::new(WriterId(1), 5)
}

fn number(random: &dyn Random, below: usize) -> usize {
    let mut bytes = [0; 8];
    random.fill(&mut bytes);
    (u64::from_le_bytes(bytes) % below as u64) as usize
}

/// Chunks of one region: of any lengths, noise or not, and some with a header of this container.
fn chunks(random: &dyn Random) -> Vec<Vec<u8>> {
    let count = 1 + number(random, 12);
    let longest = [40, 600, 5000, 20_000][number(random, 4)];
    let chunk = |_| {
        let mut chunk = vec![0; 1 + number(random, longest)];
        match number(random, 3) {
            0 => chunk.fill(number(random, 256) as u8),
            _ => random.fill(&mut chunk),
        }
        if number(random, 3) == 0 {
            plant_header(&mut chunk, number(random, 600));
        }
        chunk
    };
    (0..count).map(chunk).collect()
}

/// Writes what looks like a region's header near the end of a chunk.
fn plant_header(chunk: &mut [u8], from_end: usize) {
    let header = RegionHeader {
        container: id(),
        index: 1,
        codec: format::config::Codec::None,
        stored_bytes: 0,
        raw_bytes: 0,
        chunk_count: 0,
        payload_checksum: 0,
    };
    let head = header.encode();
    let start = chunk.len().saturating_sub(from_end + head.len());
    if let Some(place) = chunk.get_mut(start..start + head.len()) {
        place.copy_from_slice(&head);
    }
}

struct Made {
    disk: Arc<SimDisk>,
    media: Media,
    master: MasterKey,
    seal: Seal,
    appended: Vec<Appended>,
}

impl Made {
    fn new(seed: u64, seal: Seal, packs: bool) -> Self {
        let disk = SimDisk::unrecorded(Image::new());
        let media = sim::pool_histories::media(Arc::clone(&disk) as _, seed);
        let random = SeededRandom::new(seed);
        let master = MasterKey::new([9; 32]);
        let names = master.fingerprint_key();
        let settings = ContainerSettings {
            pool: POOL,
            seal,
            master: &master,
            generation: Generation(1),
            parity_percent: (seed % 3) as u8,
            packs,
        };
        let class = ContainerClass::Data;
        let mut container = settings.begin(id(), class, &random, Vec::new(), 1 << 20);
        let mut with = Compressor::new(Compression::Default, true).expect("a compressor");
        let mut appended = Vec::new();
        for _ in 0..1 + number(&random, 20) {
            let mut region = RegionBuilder::default();
            for chunk in chunks(&random) {
                region.push(names.fingerprint(&chunk), &chunk);
            }
            let done = container.append(&mut region, &mut with, &mut |one| {
                appended.push(one);
                Ok(())
            });
            done.expect("appended");
        }
        let finished = container.finish(&mut with);
        let put = media
            .blobs
            .put(&container_name(id()), finished.blob, Put::New);
        put.expect("stored");
        media
            .blobs
            .barrier(media::Barrier::ContainersBeforeRoot)
            .expect("stored");
        Self {
            disk,
            media,
            master,
            seal,
            appended,
        }
    }

    fn reader(&self) -> ContainerReader {
        let blobs = Arc::clone(&self.media.blobs);
        ContainerReader::new(blobs, POOL, self.master.clone(), self.seal)
    }

    fn has_parity(&self) -> bool {
        let shape = self.reader().shape(id()).expect("a header");
        shape.header.parity.is_some()
    }

    fn place(&self, one: &Appended) -> RegionPlace {
        RegionPlace {
            container: id(),
            sector: one.sector,
        }
    }

    fn expect(&self, one: &Appended, region: &Region) {
        let found = region.chunks.iter().map(|(name, _, len)| (*name, *len));
        assert!(found.eq(one.chunks.iter().copied()), "{one:?}");
    }
}

fn listed(directory: &Directory) -> Vec<(u32, Vec<(Fingerprint, u32)>)> {
    let regions = directory.regions.iter();
    regions.map(|r| (r.sector, r.chunks.clone())).collect()
}

fn made(seeds: std::ops::Range<u64>) -> impl Iterator<Item = Made> {
    seeds.map(|seed| {
        let seal = [Seal::None, Seal::Aes256Gcm][seed as usize % 2];
        Made::new(seed, seal, seed % 5 != 0)
    })
}

#[test]
fn regions_are_found_by_index_entries_and_by_the_directory() {
    for made in made(0..60) {
        let reader = made.reader();
        let contents = reader.contents(id()).expect("its directory");
        assert!(contents.damage.is_empty());
        let expected = made.appended.iter().map(|a| (a.sector, a.chunks.clone()));
        assert_eq!(listed(&contents.directory), expected.collect::<Vec<_>>());
        for (one, region) in made.appended.iter().zip(&contents.directory.regions) {
            let at = made.place(one);
            let found = reader
                .region_as_stored(at, one.sectors)
                .expect("by the index");
            made.expect(one, &found);
            let found = reader.region_as_stored(at, 0).expect("without a hint");
            made.expect(one, &found);
            let most = sectors_max(region.stored_bytes);
            assert!((one.sectors..=one.sectors + 1).contains(&most));
            let found = reader.region(at, most).expect("by the directory");
            made.expect(one, &found);
        }
    }
}

#[test]
fn regions_are_found_in_order() {
    for made in made(0..60) {
        for step in [512, 5000, 1 << 20] {
            let reader = made.reader();
            let mut order = reader.in_order(id()).expect("there");
            let mut found = Vec::new();
            while !order.is_complete() {
                let read = reader.read_in_order(&mut order, step).expect("in order");
                let Some(regions) = read else {
                    continue;
                };
                for (sector, stored_bytes) in regions.places {
                    let place = RegionPlace {
                        container: id(),
                        sector,
                    };
                    let read = reader.region_ahead(&regions.ahead, place, stored_bytes);
                    let region = read.expect("read").expect("sound");
                    let chunks = region.chunks.iter();
                    found.push((sector, chunks.map(|(name, _, len)| (*name, *len)).collect()));
                }
            }
            let expected = made.appended.iter().map(|a| (a.sector, a.chunks.clone()));
            assert_eq!(found, expected.collect::<Vec<_>>());
            let contents = reader.with_description_of(order).contents(id());
            assert_eq!(listed(&contents.expect("its directory").directory), found);
        }
    }
}

#[test]
fn regions_are_found_ahead_in_one_read() {
    for made in made(0..60) {
        let reader = made.reader();
        let directory = reader.contents(id()).expect("its directory").directory;
        let (first, last) = (
            &directory.regions[0],
            directory.regions.last().expect("one"),
        );
        let sectors = last.sector - first.sector + sectors_max(last.stored_bytes);
        let from = made.place(&made.appended[0]);
        let ahead = reader.ahead_by(from, sectors, &mut ReadBy::default());
        let ahead = ahead.expect("in the file");
        for (one, region) in made.appended.iter().zip(&directory.regions) {
            let read = reader.region_ahead(&ahead, made.place(one), region.stored_bytes);
            made.expect(one, &read.expect("read").expect("sound"));
        }
    }
}

/// One bit of one region flips in memory. All others are visited, each chunk with its own name.
#[test]
fn regions_are_decoded_where_they_were_read() {
    for (seed, made) in (0..).zip(made(0..80)) {
        let reader = made.reader();
        let directory = reader.contents(id()).expect("its directory").directory;
        let regions = directory.regions.iter().zip(&made.appended);
        let regions: Vec<_> = regions
            .map(|(r, a)| (made.place(a), r.stored_bytes))
            .collect();
        let (last, last_bytes) = regions.last().expect("one");
        let sectors = last.sector - regions[0].0.sector + sectors_max(*last_bytes);
        let ahead = reader.ahead_by(regions[0].0, sectors, &mut ReadBy::default());
        let mut ahead = ahead.expect("in the file");
        let random = SeededRandom::new(seed);
        let damaged = match number(&random, 3) {
            0 => None,
            _ => Some(number(&random, regions.len())),
        };
        if let Some(number) = damaged {
            ahead.damage(regions[number].0, regions[number].1);
        }
        let mut visited = Vec::new();
        reader.visit_ahead(&mut ahead, &regions, &mut |number, chunks| {
            let chunk = |(name, bytes): (&Fingerprint, &[u8])| {
                assert!(reader.fingerprints.fingerprint(bytes) == *name, "{seed}");
                (*name, bytes.len() as u32)
            };
            let chunks: Vec<_> = chunks.map(chunk).collect();
            assert_eq!(chunks, made.appended[number].chunks, "{seed}");
            visited.push(number);
        });
        let sound = (0..regions.len()).filter(|number| Some(*number) != damaged);
        assert_eq!(visited, sound.collect::<Vec<_>>(), "{seed}");
    }
}

#[test]
fn a_walk_finds_all_regions_without_the_directory() {
    // Parity sectors of a small container may equal its data.
    for made in made(0..90).filter(|made| !made.has_parity()) {
        let reader = made.reader();
        let directory = reader
            .shape(id())
            .expect("a header")
            .header
            .directory_sector;
        let name = container_name(id());
        let mut bytes = made.media.blobs.read(&name, 1 << 30).expect("read");
        bytes[directory as usize * 512 + 60] ^= 1;
        made.media
            .blobs
            .put(&name, bytes, Put::Replace)
            .expect("put");
        made.media
            .blobs
            .barrier(media::Barrier::ContainersBeforeRoot)
            .expect("stored");
        let contents = made.reader().contents(id()).expect("a walk");
        assert_eq!(contents.damage.len(), 1, "{:?}", contents.damage);
        let expected = made.appended.iter().map(|a| (a.sector, a.chunks.clone()));
        assert_eq!(listed(&contents.directory), expected.collect::<Vec<_>>());
    }
}

/// A region that begins with a sector is found although the sector before it cannot be read.
#[test]
fn a_walk_goes_on_behind_an_unreadable_sector() {
    let mut cases = 0;
    for made in made(0..90).filter(|made| !made.has_parity()) {
        let reader = made.reader();
        let directory = reader.contents(id()).expect("its directory").directory;
        let name = container_name(id());
        let bytes = made.media.blobs.read(&name, 1 << 30).expect("read");
        let at = reader
            .shape(id())
            .expect("a header")
            .header
            .directory_sector;
        let flip = Damage::FlipBit(8 * (u64::from(at) * 512 + 60));
        made.disk.damage(&name, &flip).expect("there");
        for pair in directory.regions.windows(2) {
            let (before, next) = (&pair[0], &pair[1]);
            let sector = next.sector - 1;
            let is_boundary = find_region(&bytes[next.sector as usize * 512..], id())
                .is_some_and(|(within, _)| within == 0);
            // Its end lies in the sector before, and it begins in an earlier one.
            if !is_boundary || before.sector >= sector {
                continue;
            }
            cases += 1;
            let bad = u64::from(sector) * 512..u64::from(next.sector) * 512;
            let disk = Arc::new(BadSectors::new(Arc::clone(&made.disk) as _, &name, bad));
            let blobs = sim::pool_histories::media(disk, 1).blobs;
            let reader = ContainerReader::new(blobs, POOL, made.master.clone(), made.seal);
            let found = reader.contents(id()).expect("a walk").directory;
            assert!(listed(&found).contains(&(next.sector, next.chunks.clone())));
        }
    }
    assert!(cases > 20, "{cases}");
}

#[test]
fn regions_that_begin_within_sectors_take_less() {
    let (mut packed, mut apart) = (0, 0);
    for seed in 0..20 {
        let len = |packs| {
            let made = Made::new(3 * seed, Seal::Aes256Gcm, packs);
            let len = made.media.blobs.len(&container_name(id())).expect("there");
            (len, made.appended.len())
        };
        let (with, count) = len(true);
        packed += with;
        apart += len(false).0;
        assert!(len(false).0 <= with + 512 * count as u64);
    }
    assert!(packed < apart);
}

/// A region at the end of a file that was cut off is looked for with shorter reads. A container
/// that is missing has none.
#[test]
fn a_missing_container_is_looked_for_once() {
    for made in made(0..10) {
        let reader = made.reader();
        let one = &made.appended[0];
        let at = made.place(one);
        reader
            .region_as_stored(at, one.sectors)
            .expect("it is there");
        made.media
            .blobs
            .delete(&container_name(id()))
            .expect("delete");
        for sectors in [1, one.sectors, 2048] {
            let before = made.disk.counts().opens;
            let missing = reader.region_as_stored(at, sectors).err().expect("missing");
            assert!(missing.is_corruption(), "{missing}");
            assert!(missing.to_string().contains("missing"), "{missing}");
            assert_eq!(made.disk.counts().opens - before, 1);
        }
    }
}
