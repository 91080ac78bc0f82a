//! A pool whose first image has a damaged region. Tests of quarantine and of hints use it.

use super::places::{Part, Place, Which};
use sim::{Damage, SimDisk};
use std::sync::Arc;
use store::{OpenMode, Pool};
use testkit::specimen::{Specimen, restore};

/// A pool whose first image has lost a region, and the means to undo that.
pub struct Rotten {
    pub of: Specimen,
    pub disk: Arc<SimDisk>,
    pub file: String,
    bit: u64,
}

impl Rotten {
    pub fn new(part: Part) -> Self {
        let of = Specimen::new(1, true);
        let target = Place::Container(Which::Data, part).target(&of).unwrap();
        let rotten = Self {
            disk: of.disk(),
            of,
            file: target.files[0].clone(),
            bit: 8 * (target.range.start + 20),
        };
        rotten.flip();
        rotten
    }

    pub fn flip(&self) {
        self.disk
            .damage(&self.file, &Damage::FlipBit(self.bit))
            .unwrap();
    }

    pub fn open(&self, mode: OpenMode) -> Pool {
        self.of.open(&self.disk, 7, mode).unwrap()
    }

    /// Returns the bytes of the first image.
    pub fn image(&self) -> Vec<u8> {
        match &self.of.truths[0].objects[&Vec::new()] {
            restore::Content::Bytes(bytes) => bytes.clone(),
            other => panic!("{other:?}"),
        }
    }
}
