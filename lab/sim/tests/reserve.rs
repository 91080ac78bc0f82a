//! The reserve on a file system: allocated space.
//!
//! Invariant: reported bytes are allocated, and are free again when the reserve is released.

use media::{Disk, LocalDisk, Need, Reserve};
use std::sync::Arc;

#[test]
fn it_is_made_given_up_and_made_again() {
    let top = std::env::temp_dir().join(format!("quintet-reserve-{}", std::process::id()));
    std::fs::create_dir_all(&top).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(&top));
    let reserve = Reserve::new(Arc::clone(&disk));
    assert!(!reserve.release(1, Need::Room), "there is none");
    reserve.restore();
    let made = reserve.look().expect("a file system says how much is free");
    assert_eq!(made.held_bytes, made.wanted_bytes, "{made:?}");
    use std::os::unix::fs::MetadataExt;
    let on_disk = std::fs::metadata(top.join(media::RESERVE_NAME)).expect("a file");
    assert!(on_disk.blocks() * 512 >= made.held_bytes, "not sparse");
    assert!(!reserve.release(1, Need::New), "none of it is for them");
    assert!(reserve.release(made.wanted_bytes, Need::Acknowledged));
    let held = || reserve.look().expect("known").held_bytes;
    assert_eq!(held(), made.wanted_bytes / 2);
    assert!(
        !reserve.release(1, Need::Acknowledged),
        "the rest is for others"
    );
    assert!(reserve.release(1, Need::Deletion));
    let left = held();
    assert!(
        left > made.wanted_bytes / 4,
        "{left}: not more than is needed"
    );
    assert!(reserve.release(u64::MAX, Need::Room));
    assert_eq!(held(), 0);
    assert!(!reserve.release(1, Need::Room), "it is empty");
    reserve.restore();
    assert_eq!(reserve.look().map(|r| r.held_bytes), Some(made.held_bytes));
    std::fs::remove_dir_all(&top).unwrap();
}
