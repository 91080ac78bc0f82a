//! Actions that damage a place.

use super::places::{Place, Target};
use sim::{Damage, SimDisk};
use testkit::specimen::{Specimen, noise};

/// A column of the matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Flips one bit of the place.
    FlipOne,
    /// Flips 64 bits of the place.
    FlipMany,
    /// Zeroes every byte of the place.
    Zero,
    /// Cuts the file near the beginning of the place.
    Truncate,
    /// Deletes the file.
    Delete,
    /// Swaps the contents with another file of the same kind.
    Swap,
    /// Restores the file from before the last commit, or an earlier one of the same kind.
    Older,
    /// Replaces the file by the same file of another pool.
    Foreign,
    /// Appends garbage to the file.
    Append,
}

use Action::{Append, Delete, FlipMany, FlipOne, Foreign, Older, Swap, Truncate, Zero};

/// All columns.
pub const ACTIONS: [Action; 9] = [
    FlipOne, FlipMany, Zero, Truncate, Delete, Swap, Older, Foreign, Append,
];

impl Action {
    /// Damages the place on `disk`. Returns false if the action does not apply to the place.
    pub fn apply(
        self,
        place: Place,
        target: &Target,
        of: &Specimen,
        other: &Specimen,
        disk: &SimDisk,
    ) -> bool {
        let Target { files, range } = target;
        if let Place::Leftover | Place::Lock = place {
            return self.plant(place, files, disk);
        }
        let len = range.end - range.start;
        if len == 0 {
            return false;
        }
        // A part is damaged by its bytes. Actions on names apply to whole files.
        let is_whole =
            range.start == 0 && of.image.contents(&files[0]).unwrap().len() as u64 == len;
        if !is_whole && !matches!(self, FlipOne | FlipMany | Zero | Truncate) {
            return false;
        }
        for file in files {
            let damages = match self {
                FlipOne => vec![Damage::FlipBit(8 * (range.start + len / 2) + 3)],
                FlipMany => (0..64)
                    .map(|n| Damage::FlipBit(8 * (range.start + len * n / 64) + n % 8))
                    .collect(),
                Zero => vec![Damage::Zero {
                    offset: range.start,
                    len,
                }],
                Truncate => vec![Damage::SetLen(range.start + len / 16)],
                Delete => vec![Damage::Delete],
                Swap => match place.sibling(&of.image, file) {
                    Some(sibling) => vec![Damage::Swap(sibling)],
                    None => return false,
                },
                Older => match older(place, of, file) {
                    Some(bytes) => vec![Damage::Replace(bytes)],
                    None => return false,
                },
                Foreign => match foreign(place, target, file, other) {
                    Some(bytes) => vec![Damage::Replace(bytes)],
                    None => return false,
                },
                Append => vec![Damage::Overwrite {
                    offset: of.image.contents(file).unwrap().len() as u64,
                    bytes: noise(99, 700),
                }],
            };
            for damage in &damages {
                disk.damage(file, damage).expect("the file is there");
            }
        }
        true
    }

    /// Adds or deletes files without contents: leftovers and the lock.
    fn plant(self, place: Place, files: &[String], disk: &SimDisk) -> bool {
        match (self, place) {
            (Delete, Place::Lock) => disk.damage("lock", &Damage::Delete).is_ok(),
            (Append, _) => {
                files
                    .iter()
                    .for_each(|file| disk.plant(file, &noise(98, 700)));
                true
            }
            _ => false,
        }
    }
}

fn older(place: Place, of: &Specimen, file: &str) -> Option<Vec<u8>> {
    match place {
        Place::Index(_) => of.older.contents(file),
        _ => of.image.contents(&place.sibling(&of.image, file)?),
    }
}

/// Returns the same place of the other pool. Its key slots have other names.
fn foreign(place: Place, target: &Target, file: &str, other: &Specimen) -> Option<Vec<u8>> {
    let number = target.files.iter().position(|f| f == file)?;
    let theirs = place.target(other)?;
    other.image.contents(theirs.files.get(number)?)
}
