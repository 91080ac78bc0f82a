//! Defines layers: disks that stand in front of another and change some of its calls. Paced disks
//! and the tests' damaged disks implement [`DiskLayer`]; callers see a [`Disk`].
//!
//! Invariant: a call that a layer does not change reaches the disk below unchanged. The list below
//! names every method of [`Disk`], once for all layers.

use crate::{Barrier, Disk, DiskEntry, DiskFile, DiskLock, MediaError, Room};
use std::sync::Arc;

macro_rules! disk_layer {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        /// A disk in front of another. Implementing this makes a [`Disk`]; a layer writes only the
        /// methods that it changes.
        pub trait DiskLayer: Send + Sync {
            /// Returns the disk behind.
            fn below(&self) -> &dyn Disk;

            $(
                #[doc = concat!("As [`Disk::", stringify!($name), "`].")]
                fn $name(&self $(, $argument: $type)*) -> $result {
                    self.below().$name($($argument),*)
                }
            )*
        }

        impl<L: DiskLayer> Disk for L {
            $(
                fn $name(&self $(, $argument: $type)*) -> $result {
                    DiskLayer::$name(self $(, $argument)*)
                }
            )*
        }
    };
}

disk_layer! {
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError>;
    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError>;
    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError>;
    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError>;
    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError>;
    fn remove(&self, path: &str) -> Result<(), MediaError>;
    fn list(&self, dir: &str) -> Result<Vec<DiskEntry>, MediaError>;
    fn make_dir(&self, dir: &str) -> Result<bool, MediaError>;
    fn sync_dir(&self, dir: &str, point: Barrier) -> Result<(), MediaError>;
    fn lock(&self, path: &str) -> Result<DiskLock, MediaError>;
    fn is_paced(&self) -> bool;
    fn room(&self) -> Option<Room>;
}
