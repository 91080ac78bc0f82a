//! The slices of a map that hold runs of one owner, so that they are found when it changes. The
//! file systems keep one for each inode or record.
//!
//! Invariant: sorted, each once.

/// Slices that hold runs of an inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Slices {
    /// One slice.
    One(u32),
    /// Several, or none: sorted.
    Many(Box<[u32]>),
}

impl Slices {
    /// From a list in any order.
    pub fn new(mut slices: Vec<u32>) -> Self {
        slices.sort_unstable();
        slices.dedup();
        match slices[..] {
            [one] => Self::One(one),
            _ => Self::Many(slices.into_boxed_slice()),
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let slice = match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        };
        slice.iter().copied()
    }

    /// Memory outside of this, bytes.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Many(many) => size_of_val(&**many) + 16,
        }
    }
}
