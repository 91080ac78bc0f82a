//! A scrub verifies the medium: regions that readers got from the system's page cache are read
//! again, and damaged containers are restored where there is parity.

use duet::Duet;
use maintenance::{MaintenanceTask, ScrubFindings, ScrubNews, Scrubber, TaskStep};
use media::{Barrier, Disk, DiskFile, DiskLayer, Media, MediaError, ReadFrom};
use parking_lot::Mutex;
use sim::{Damage, SimDisk};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{OpenMode, Pool};
use testkit::specimen::{MEMORY_BYTES, Specimen};
use units::UnixNanos;

const PAGE: u64 = 4096;

/// Pages of files as they were when first read.
type Cache = Arc<Mutex<BTreeMap<(String, u64), Vec<u8>>>>;

/// A disk below a page cache that forgets only renamed or removed files.
struct Warm {
    below: Arc<SimDisk>,
    cache: Cache,
}

impl Warm {
    fn wrap(&self, path: &str, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let (path, cache) = (path.to_owned(), Arc::clone(&self.cache));
        Arc::new(WarmFile { file, path, cache })
    }

    fn forget(&self, path: &str) {
        self.cache.lock().retain(|(of, _), _| of != path);
    }
}

impl DiskLayer for Warm {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }
    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let file = self.below.open_read(path)?;
        Ok(match path.starts_with("containers/") {
            true => self.wrap(path, file),
            false => file,
        })
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.forget(to);
        self.below.rename(from, to)
    }
    fn remove(&self, path: &str) -> Result<(), MediaError> {
        self.forget(path);
        self.below.remove(path)
    }
}

struct WarmFile {
    file: Arc<dyn DiskFile>,
    path: String,
    cache: Cache,
}

impl DiskFile for WarmFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.read_at_reported(offset, into, false).map(drop)
    }
    fn read_at_past_cache(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.file.read_at(offset, into)
    }
    fn read_at_reported(
        &self,
        offset: u64,
        into: &mut [u8],
        past_cache: bool,
    ) -> Result<ReadFrom, MediaError> {
        if past_cache {
            self.file.read_at(offset, into)?;
            return Ok(ReadFrom::Device);
        }
        // The device is asked in any case, at the end of the file too.
        self.file.read_at(offset, into)?;
        let len = self.file.len()?;
        let mut cache = self.cache.lock();
        let mut from = ReadFrom::Device;
        let end = offset + into.len() as u64;
        let pages = offset / PAGE..end.div_ceil(PAGE);
        let has = |page: u64| cache.contains_key(&(self.path.clone(), page));
        if !pages.clone().all(has) {
            // The system is asked to drop a part that it has, such as the end of the region before.
            cache.retain(|(path, page), _| *path != self.path || !pages.contains(page));
        }
        for page in pages {
            let start = page * PAGE;
            let key = (self.path.clone(), page);
            if cache.contains_key(&key) {
                from = ReadFrom::Cache;
            } else {
                let mut bytes = vec![0; PAGE.min(len - start) as usize];
                self.file.read_at(start, &mut bytes)?;
                cache.insert(key.clone(), bytes);
            }
            for (byte, at) in cache[&key].iter().zip(start..) {
                if (offset..end).contains(&at) {
                    into[(at - offset) as usize] = *byte;
                }
            }
        }
        Ok(from)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.file.write_at(offset, data)
    }
    fn len(&self) -> Result<u64, MediaError> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.file.set_len(len)
    }
    fn sync(&self, point: Barrier) -> Result<(), MediaError> {
        self.file.sync(point)
    }
}

fn duet() -> Arc<Duet> {
    Duet::new(duet::DuetOptions {
        items_max: 1 << 16,
        seed: 1,
    })
}

fn open(of: &Specimen, disk: Arc<dyn Disk>) -> Arc<Pool> {
    let media = Media::seeded(disk, UnixNanos(1_000_000_000_000), 5);
    let secret = of.secret.as_ref();
    Arc::new(Pool::open(media, secret, OpenMode::Write, MEMORY_BYTES).expect("open"))
}

fn run(scrubber: &mut Scrubber) -> ScrubFindings {
    let mut found = ScrubFindings::default();
    loop {
        let step = scrubber.step(0, 10_000).unwrap();
        match step {
            TaskStep::News(ScrubNews {
                found: more,
                unread: None,
            }) => {
                found.damaged.extend(more.damaged);
                found.taken_back.extend(more.taken_back);
            }
            TaskStep::Worked { .. } => {}
            TaskStep::Finished => return found,
            other => panic!("{other:?}"),
        }
    }
}

fn read_all(of: &Specimen, pool: &Pool) {
    for truth in &of.truths {
        assert!(truth.restore(pool).unwrap().is_empty());
    }
}

#[test]
fn rot_beneath_a_warm_cache_is_found() {
    let of = Specimen::new(4, true);
    let below = of.disk();
    let cache = Cache::default();
    let disk = Arc::new(Warm {
        below: Arc::clone(&below),
        cache: Arc::clone(&cache),
    });
    // A reader has read all of it before.
    read_all(&of, &open(&of, Arc::clone(&disk) as _));
    let pool = open(&of, disk);
    // The medium rots; no reader above the cache sees it.
    let data: Vec<_> = of.image.files();
    let data = data
        .iter()
        .filter(|(path, _)| path.starts_with("containers/0001"));
    let mut rotten = 0;
    for (path, _) in data {
        below
            .damage(path, &Damage::FlipBit((512 + 300) * 8))
            .unwrap();
        rotten += 1;
    }
    assert!(rotten > 3, "{rotten}");
    let duet = duet();
    pool.tell_of_reads(&duet);
    let mut scrubber = Scrubber::new(Arc::clone(&pool), duet);
    scrubber.start(None).unwrap();
    // Readers during the pass, all from the cache.
    read_all(&of, &pool);
    let found = run(&mut scrubber);
    assert_eq!(
        scrubber.status().last.cached_bytes,
        0,
        "nothing was on the medium"
    );
    assert_eq!(found.damaged.len(), rotten, "{:?}", found.damaged);
}

#[test]
fn what_the_device_gave_to_readers_is_not_read_again() {
    let of = Specimen::new(4, true);
    let cold = Arc::new(Warm {
        below: of.disk(),
        cache: Cache::default(),
    });
    let pool = open(&of, cold);
    let duet = duet();
    pool.tell_of_reads(&duet);
    let mut scrubber = Scrubber::new(Arc::clone(&pool), duet);
    scrubber.start(None).unwrap();
    read_all(&of, &pool);
    assert!(run(&mut scrubber).is_empty());
    assert!(scrubber.status().last.cached_bytes > 0);
}

#[test]
fn a_scrub_puts_damaged_containers_back() {
    let of = Specimen::with_parity(4, true, 2);
    let disk = of.disk();
    let containers = of.image.files_below("containers");
    for (number, (path, len)) in containers.iter().enumerate() {
        // Headers, regions, directories, checksums, parity, footers.
        let at = (number as u64 * 4099 * 8 + 77) % (len * 8);
        disk.damage(path, &Damage::FlipBit(at)).unwrap();
    }
    let pool = Arc::new(of.open(&disk, 7, OpenMode::Write).unwrap());
    let mut scrubber = Scrubber::alone(Arc::clone(&pool));
    scrubber.start(None).unwrap();
    let found = run(&mut scrubber);
    assert!(
        found
            .damaged
            .iter()
            .all(|d| d.is_restored() && d.is_repaired())
    );
    assert!(
        found.damaged.len() * 2 > containers.len(),
        "{}",
        found.damaged.len()
    );
    // A scrub does not read the gaps between regions: they are restored with the rest, or harm
    // nothing.
    let mut differ = 0;
    for (path, _) in &containers {
        differ += usize::from(disk.image().contents(path) != of.image.contents(path));
    }
    assert_eq!(differ + found.damaged.len(), containers.len());
    assert!(!pool.reader().knows_damage(), "nothing is set aside");
    let mut again = Scrubber::alone(Arc::clone(&pool));
    again.start(None).unwrap();
    assert!(run(&mut again).is_empty());
    read_all(&of, &pool);
}
