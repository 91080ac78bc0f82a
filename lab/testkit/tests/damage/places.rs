//! Places that the matrix damages: every kind of file of a pool and every part of a container.

use format::container::{ContainerClass, ContainerHeader, HEADER_BYTES, RegionHeader};
use format::container::{REGION_HEADER_BYTES, SECTOR_BYTES, next_region};
use sim::Image;
use std::ops::Range;
use testkit::specimen::Specimen;

/// Selects one or both names of a small blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copies {
    Name,
    Mirror,
    Both,
}

/// Selects a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// User data of the first commit.
    Data,
    /// Recipes, directories and the catalog of the last commit but one.
    Recipe,
    /// Recipes, directories and the catalog of the last commit: the catalog in use.
    NewestRecipe,
}

/// Selects a part of a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Header,
    RegionHeader,
    RegionPayload,
    RegionPadding,
    DirectoryHeader,
    DirectoryPayload,
    DirectoryPadding,
    Footer,
    /// All of it.
    File,
}

/// Selects a part of the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexPart {
    Slot0,
    Slot1,
    Bucket,
    Tail,
    File,
}

/// A row of the matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Config(Copies),
    /// The slot that the tests open the pool with.
    KeySlot(Copies),
    /// A slot that another user opens the pool with.
    OtherSlot(Copies),
    Root(Copies),
    /// The root before the newest.
    OldRoot(Copies),
    Container(Which, Part),
    Index(IndexPart),
    Leftover,
    Lock,
}

/// A range of bytes, the same in each file.
pub struct Target {
    pub files: Vec<String>,
    pub range: Range<u64>,
}

use Copies::{Both, Mirror, Name};
use Part::{DirectoryHeader, DirectoryPadding, DirectoryPayload};
use Which::{Data, NewestRecipe, Recipe};

/// Returns all rows.
pub fn places() -> Vec<Place> {
    let mut places = Vec::new();
    for copies in [Name, Mirror, Both] {
        places.extend(
            [
                Place::Config,
                Place::KeySlot,
                Place::OtherSlot,
                Place::Root,
                Place::OldRoot,
            ]
            .map(|place| place(copies)),
        );
    }
    let parts = [
        Part::Header,
        Part::RegionHeader,
        Part::RegionPayload,
        Part::RegionPadding,
        DirectoryHeader,
        DirectoryPayload,
        DirectoryPadding,
        Part::Footer,
        Part::File,
    ];
    for which in [Data, Recipe, NewestRecipe] {
        places.extend(parts.map(|part| Place::Container(which, part)));
    }
    use IndexPart::{Bucket, File, Slot0, Slot1, Tail};
    places.extend([Slot0, Slot1, Bucket, Tail, File].map(Place::Index));
    places.extend([Place::Leftover, Place::Lock]);
    places
}

impl Place {
    /// Returns files and bytes, or `None` if this pool has no such place.
    pub fn target(self, of: &Specimen) -> Option<Target> {
        let image = &of.image;
        let whole = |files: Vec<String>| {
            let len = length(image, files.first()?);
            Some(Target {
                files,
                range: 0..len,
            })
        };
        let nth = |dir: &str, from_end: usize| {
            let names = names(image, dir);
            names.into_iter().rev().nth(from_end)
        };
        match self {
            Self::Config(copies) => whole(named("config", copies)),
            Self::KeySlot(copies) => whole(named(&slot(image, false)?, copies)),
            Self::OtherSlot(copies) => whole(named(&slot(image, true)?, copies)),
            Self::Root(copies) => whole(named(&nth("roots/", 0)?, copies)),
            Self::OldRoot(copies) => whole(named(&nth("roots/", 1)?, copies)),
            Self::Container(which, part) => {
                let file = container(image, which);
                let range = part.range(&image.contents(&file)?);
                let files = vec![file];
                Some(Target { files, range })
            }
            Self::Index(part) => {
                let file = "cache/fpi".to_owned();
                let range = part.range(length(image, &file));
                let files = vec![file];
                Some(Target { files, range })
            }
            Self::Leftover => Some(Target {
                files: vec!["tmp/roots.00000000000000000009.3".to_owned()],
                range: 0..100,
            }),
            Self::Lock => Some(Target {
                files: vec!["lock".to_owned()],
                range: 0..0,
            }),
        }
    }

    /// Returns a file of the same kind, to swap with.
    pub fn sibling(self, image: &Image, file: &str) -> Option<String> {
        let (dir, _) = file.rsplit_once('/')?;
        let mut others = names(image, &format!("{dir}/"));
        match self {
            Self::Config(_) | Self::Index(_) | Self::Leftover | Self::Lock => return None,
            Self::Container(..) => {
                let class = header(image, file)?.class;
                others.retain(|other| header(image, other).is_some_and(|h| h.class == class));
            }
            _ => {}
        }
        others.retain(|other| other != file);
        others.pop()
    }
}

impl Part {
    /// Returns the range of a part. Region parts are those of the first region.
    fn range(self, blob: &[u8]) -> Range<u64> {
        let end = blob.len() as u64;
        let header = ContainerHeader::decode(blob, false).expect("a container");
        let sector = u64::from(SECTOR_BYTES);
        let footer = end - HEADER_BYTES as u64;
        let directory = u64::from(header.directory_sector) * sector;
        let parts = |at: u64| {
            let bytes = blob.get(at as usize..).expect("inside");
            let region = RegionHeader::decode(bytes).expect("a region");
            let payload = at + REGION_HEADER_BYTES as u64;
            [
                at..payload,
                payload..payload + u64::from(region.stored_bytes),
            ]
        };
        let first = HEADER_BYTES as u64;
        let region = parts(first);
        let directory = parts(directory);
        let [region_header, region_payload] = region;
        let [directory_header, directory_payload] = directory;
        match self {
            Self::Header => 0..first,
            Self::RegionHeader => region_header,
            Self::RegionPayload => region_payload,
            Self::RegionPadding => padding(blob).first().expect("a region").clone(),
            DirectoryHeader => directory_header,
            DirectoryPayload => directory_payload,
            DirectoryPadding => padding(blob).last().expect("a directory").clone(),
            Self::Footer => footer..end,
            Self::File => 0..end,
        }
    }
}

/// Returns the unused bytes of a container: from the end of each region to the next one.
pub fn padding(blob: &[u8]) -> Vec<Range<u64>> {
    let header = ContainerHeader::decode(blob, false).expect("a container");
    let directory = header.directory_sector as usize * SECTOR_BYTES as usize;
    let mut ranges = Vec::new();
    let mut at = HEADER_BYTES;
    while at <= directory {
        let region = RegionHeader::decode(&blob[at..]).expect("a region");
        let end = at + region.region_bytes();
        at = match at == directory {
            true => end.next_multiple_of(SECTOR_BYTES as usize),
            false => next_region(blob, header.id, at, end),
        };
        ranges.push(end as u64..at as u64);
    }
    ranges
}

impl IndexPart {
    fn range(self, len: u64) -> Range<u64> {
        use format::index::{BUCKET_BYTES, BUCKETS_START, HEADER_BYTES, HEADER_SLOT_BYTES};
        let tail = BUCKETS_START + 64 * BUCKET_BYTES as u64;
        match self {
            Self::Slot0 => 0..HEADER_BYTES as u64,
            Self::Slot1 => HEADER_SLOT_BYTES..HEADER_SLOT_BYTES + HEADER_BYTES as u64,
            Self::Bucket => BUCKETS_START..tail,
            Self::Tail => tail..len,
            Self::File => 0..len,
        }
    }
}

fn named(name: &str, copies: Copies) -> Vec<String> {
    let mirror = format!("mirror/{name}");
    match copies {
        Name => vec![name.to_owned()],
        Mirror => vec![mirror],
        Both => vec![name.to_owned(), mirror],
    }
}

fn length(image: &Image, file: &str) -> u64 {
    image.contents(file).map_or(0, |bytes| bytes.len() as u64)
}

/// Returns the files in a directory, sorted.
fn names(image: &Image, dir: &str) -> Vec<String> {
    let files = image.files().into_iter().map(|(path, _)| path);
    files.filter(|path| path.starts_with(dir)).collect()
}

fn slot(image: &Image, password: bool) -> Option<String> {
    use format::key_slot::{KeyDerivation, KeySlot};
    names(image, "keys/").into_iter().find(|name| {
        let (slot, _) = KeySlot::decode(&image.contents(name).expect("listed")).expect("a slot");
        matches!(slot.derivation, KeyDerivation::Argon2id { .. }) == password
    })
}

fn header(image: &Image, file: &str) -> Option<ContainerHeader> {
    ContainerHeader::decode(&image.contents(file)?, false).ok()
}

/// Returns the container's file: the second one of the first commit, or the recipes of a commit.
fn container(image: &Image, which: Which) -> String {
    let (class, generation, number) = match which {
        Data => (ContainerClass::Data, 2, 1),
        Recipe => (ContainerClass::Recipe, 4, 0),
        NewestRecipe => (ContainerClass::Recipe, 5, 0),
    };
    let of_kind = |file: &String| {
        let found = header(image, file).expect("a container");
        found.class == class && found.generation.0 == generation
    };
    let mut files = names(image, "containers/").into_iter().filter(of_kind);
    files
        .nth(number)
        .expect("the specimen has such a container")
}
