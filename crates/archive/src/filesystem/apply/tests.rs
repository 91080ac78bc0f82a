use super::*;
use crate::filesystem::capture::{Captured, Directory};
use crate::filesystem::overwrite::Placement;
use format::recipe::ObjectRoot;
use format::tree::EntryKind;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

const OURS: Privileges = Privileges::NONE;

fn target() -> (tempfile::TempDir, Arc<TargetDirectory>) {
    let top = tempfile::tempdir().unwrap();
    let directory = TargetDirectory::create_top(top.path()).unwrap();
    (top, directory)
}

fn entry(kind: EntryKind) -> Entry {
    Entry {
        name: b"unused".to_vec(),
        kind,
        mode: 0o640,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        modified: Timestamp {
            seconds: -5,
            nanos: 123_456_789,
        },
        changed: Timestamp::default(),
        inode: 0,
        device: 0,
        links: 1,
        xattrs: Vec::new(),
    }
}

fn file_entry() -> Entry {
    entry(EntryKind::File {
        content: ObjectRoot::EMPTY,
        sparse: false,
    })
}

fn capture(top: &Path, name: &CStr) -> Captured {
    let directory = Directory::open(top).unwrap();
    directory.capture(name, &mut Vec::new()).unwrap()
}

/// All metadata that a restore promises to set.
fn promised(entry: &Entry) -> impl PartialEq + std::fmt::Debug + use<> {
    let Entry {
        mode,
        uid,
        gid,
        modified,
        xattrs,
        ..
    } = entry.clone();
    (mode, uid, gid, modified, xattrs)
}

fn assert_none(shortfalls: &Shortfalls) {
    assert!(shortfalls.warnings.is_empty(), "{shortfalls:?}");
    assert_eq!(shortfalls.owners_not_set, 0);
}

#[test]
fn a_new_file_with_holes() {
    let (top, directory) = target();
    let file = directory.create_file(c"f", Placement::Replace).unwrap();
    file.write_at(1 << 20, b"data").unwrap();
    file.zero_at(0, 4096).unwrap();
    let mut shortfalls = Shortfalls::default();
    file.finish(&file_entry(), 4 << 20, OURS, &mut shortfalls)
        .unwrap();
    assert_none(&shortfalls);
    let captured = capture(top.path(), c"f");
    assert_eq!(captured.len, 4 << 20);
    assert!(captured.allocated_bytes <= 64 << 10, "{captured:?}");
    assert_eq!(promised(&captured.entry), promised(&file_entry()));
}

#[test]
fn replacing_is_all_or_nothing() {
    let (top, directory) = target();
    let path = top.path().join("f");
    fs::write(&path, b"old").unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let file = directory.create_file(c"f", Placement::Replace).unwrap();
    file.write_at(0, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    drop(file);
    assert_eq!(fs::read_dir(top.path()).unwrap().count(), 1);
    let file = directory.create_file(c"f", Placement::Replace).unwrap();
    file.write_at(0, b"new").unwrap();
    file.finish(&file_entry(), 3, OURS, &mut Shortfalls::default())
        .unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_ne!(fs::metadata(&path).unwrap().ino(), inode);
    assert_eq!(fs::read_dir(top.path()).unwrap().count(), 1);
}

#[test]
fn rewriting_keeps_the_inode_and_zeroes_holes() {
    let (top, directory) = target();
    let path = top.path().join("f");
    fs::write(&path, vec![1; 100_000]).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let file = directory.create_file(c"f", Placement::Rewrite).unwrap();
    assert!(file.is_rewritten());
    file.write_at(0, b"new").unwrap();
    file.zero_at(10, 70_000).unwrap();
    file.finish(&file_entry(), 90_000, OURS, &mut Shortfalls::default())
        .unwrap();
    let mut expected = vec![1; 90_000];
    expected[..3].copy_from_slice(b"new");
    expected[10..70_010].fill(0);
    assert!(fs::read(&path).unwrap() == expected);
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
}

#[test]
fn links_are_replaced_and_never_followed() {
    let (top, directory) = target();
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    fs::write(&victim, b"victim").unwrap();
    for placement in [Placement::Replace, Placement::Rewrite] {
        let link = top.path().join("link");
        let _ = fs::remove_file(&link);
        symlink(&victim, &link).unwrap();
        let file = directory.create_file(c"link", placement).unwrap();
        file.write_at(0, b"new").unwrap();
        file.finish(&file_entry(), 3, OURS, &mut Shortfalls::default())
            .unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"victim");
        assert_eq!(fs::read(&link).unwrap(), b"new");
        assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
    }
    symlink(outside.path(), top.path().join("d")).unwrap();
    assert!(directory.open_beneath(c"d").is_err());
    assert!(directory.make_directory(c"d", false).is_err());
    let made = directory.make_directory(c"d", true).unwrap();
    made.create_file(c"in", Placement::Replace)
        .unwrap()
        .finish(&file_entry(), 0, OURS, &mut Shortfalls::default())
        .unwrap();
    assert!(!outside.path().join("in").exists());
    assert!(top.path().join("d/in").exists());
}

#[test]
fn beneath_stays_beneath() {
    let (top, directory) = target();
    fs::create_dir_all(top.path().join("a/b")).unwrap();
    let opened = directory.open_beneath(c"a/b").unwrap();
    assert_eq!(opened.path(), top.path().join("a/b"));
    assert!(directory.walk_beneath(c"./a//b").is_ok());
    for bad in [c"..", c"a/../..", c"/"] {
        assert!(directory.open_beneath(bad).is_err(), "{bad:?}");
    }
    assert!(directory.walk_beneath(c"a/../..").is_err());
    symlink("/", top.path().join("a/root")).unwrap();
    assert!(directory.open_beneath(c"a/root/usr").is_err());
    assert!(directory.walk_beneath(c"a/root/usr").is_err());
}

#[test]
fn special_files_and_their_metadata() {
    let (top, directory) = target();
    let link = EntryKind::Symlink {
        target: b"\xff nowhere".to_vec(),
    };
    let mut kinds = vec![
        (c"link", link),
        (c"pipe", EntryKind::Fifo),
        (c"socket", EntryKind::Socket),
    ];
    let privileges = Privileges::of_process();
    if privileges.change_owner {
        kinds.push((c"device", EntryKind::CharDevice { device: 0x0103 }));
    } else {
        eprintln!("SKIPPED: devices need root");
    }
    // The second round replaces the files of the first one.
    for _ in 0..2 {
        for (name, kind) in &kinds {
            let mut shortfalls = Shortfalls::default();
            let mut wanted = entry(kind.clone());
            if matches!(kind, EntryKind::Symlink { .. }) {
                wanted.mode = 0o777;
            }
            directory
                .place(name, &wanted, privileges, &mut shortfalls)
                .unwrap();
            assert_none(&shortfalls);
            let captured = capture(top.path(), name).entry;
            assert_eq!(captured.kind, *kind);
            assert_eq!(promised(&captured), promised(&wanted));
        }
    }
    assert_eq!(fs::read_dir(top.path()).unwrap().count(), kinds.len());
}

#[test]
fn hard_links() {
    let (top, directory) = target();
    let below = directory.make_directory(c"below", false).unwrap();
    let file = directory.create_file(c"f", Placement::Replace).unwrap();
    let made = file
        .finish(&file_entry(), 0, OURS, &mut Shortfalls::default())
        .unwrap();
    fs::write(top.path().join("below/g"), b"in the way").unwrap();
    for _ in 0..2 {
        below.link(c"g", &directory, c"f", made).unwrap();
        let inode = |name: &str| fs::metadata(top.path().join(name)).unwrap().ino();
        assert_eq!(inode("f"), inode("below/g"));
        assert_eq!(fs::read_dir(top.path().join("below")).unwrap().count(), 1);
    }
}

#[test]
fn directories_get_their_metadata_last() {
    let (top, directory) = target();
    let made = directory.make_directory(c"d", false).unwrap();
    let path = top.path().join("d");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o700
    );
    let mut wanted = entry(EntryKind::Directory {
        content: ObjectRoot::EMPTY,
    });
    wanted.mode = 0o2510;
    let file = made.create_file(c"f", Placement::Replace).unwrap();
    file.finish(&file_entry(), 0, OURS, &mut Shortfalls::default())
        .unwrap();
    let mut shortfalls = Shortfalls::default();
    made.finish(&wanted, OURS, &mut shortfalls);
    assert_none(&shortfalls);
    assert_eq!(
        promised(&capture(top.path(), c"d").entry),
        promised(&wanted)
    );
    // A second restore may write into it again.
    let again = directory.make_directory(c"d", false).unwrap();
    assert!(again.create_file(c"g", Placement::Replace).is_ok());
}

#[test]
fn a_file_over_a_directory_only_when_it_is_empty() {
    let (top, directory) = target();
    fs::create_dir_all(top.path().join("empty")).unwrap();
    fs::create_dir_all(top.path().join("full/of")).unwrap();
    let put = |name: &CStr| {
        let file = directory.create_file(name, Placement::Replace).unwrap();
        file.finish(&file_entry(), 0, OURS, &mut Shortfalls::default())
    };
    put(c"empty").unwrap();
    assert!(put(c"full").is_err());
    assert!(top.path().join("full/of").is_dir());
    assert_eq!(fs::read_dir(top.path()).unwrap().count(), 2);
}

#[test]
fn attributes_come_and_go() {
    let (top, directory) = target();
    let mut wanted = file_entry();
    wanted.mode = 0o400;
    wanted.xattrs = vec![(b"user.kept".to_vec(), vec![1; 2000])];
    // An access ACL: user::rw-, user:1:r--, group::r--, mask::r--, other::---
    let acl = [
        2u32.to_le_bytes().to_vec(),
        acl_entry(0x01, 6, u32::MAX),
        acl_entry(0x02, 4, 1),
        acl_entry(0x04, 4, u32::MAX),
        acl_entry(0x10, 4, u32::MAX),
        acl_entry(0x20, 0, u32::MAX),
    ]
    .concat();
    let mut with_acl = wanted.clone();
    with_acl.mode = 0o640;
    with_acl
        .xattrs
        .insert(0, (b"system.posix_acl_access".to_vec(), acl));
    for wanted in [&wanted, &with_acl, &wanted] {
        let file = directory.create_file(c"f", Placement::Rewrite).unwrap();
        let mut shortfalls = Shortfalls::default();
        file.finish(wanted, 0, OURS, &mut shortfalls).unwrap();
        if shortfalls
            .warnings
            .iter()
            .any(|w| w.source.raw_os_error() == Some(95))
        {
            eprintln!("SKIPPED: this file system has no attributes or ACLs");
            return;
        }
        assert_none(&shortfalls);
        assert_eq!(promised(&capture(top.path(), c"f").entry), promised(wanted));
    }
}

fn acl_entry(tag: u16, permissions: u16, id: u32) -> Vec<u8> {
    let mut bytes = tag.to_le_bytes().to_vec();
    bytes.extend(permissions.to_le_bytes());
    bytes.extend(id.to_le_bytes());
    bytes
}

#[test]
fn owners() {
    let (top, directory) = target();
    let mut wanted = file_entry();
    (wanted.uid, wanted.gid, wanted.mode) = (12345, 54321, 0o4755);
    let finish = |privileges, shortfalls: &mut Shortfalls| {
        let file = directory.create_file(c"f", Placement::Replace).unwrap();
        file.finish(&wanted, 0, privileges, shortfalls).unwrap();
    };
    // Users who may not give files away keep them, without the set-user-ID bit, and get a warning.
    let mut shortfalls = Shortfalls::default();
    finish(OURS, &mut shortfalls);
    assert_eq!(shortfalls.owners_not_set, 1);
    assert_eq!(shortfalls.warnings.len(), 1);
    assert_eq!(capture(top.path(), c"f").entry.mode, 0o755);
    if !Privileges::of_process().change_owner {
        eprintln!("SKIPPED: giving files away needs root");
        return;
    }
    let mut shortfalls = Shortfalls::default();
    finish(Privileges::of_process(), &mut shortfalls);
    assert_none(&shortfalls);
    assert_eq!(
        promised(&capture(top.path(), c"f").entry),
        promised(&wanted)
    );
}

#[test]
fn what_is_not_wanted_is_left_out() {
    let (top, directory) = target();
    let mut wanted = file_entry();
    (wanted.uid, wanted.gid, wanted.mode) = (12345, 54321, 0o6755);
    wanted.xattrs = vec![(b"user.given".to_vec(), b"1".to_vec())];
    let everything = Privileges::of_process();
    let finish = |privileges: Privileges| {
        let file = directory.create_file(c"f", Placement::Replace).unwrap();
        let mut shortfalls = Shortfalls::default();
        file.finish(&wanted, 0, privileges, &mut shortfalls)
            .unwrap();
        (capture(top.path(), c"f").entry, shortfalls)
    };
    let ours = rustix::process::geteuid().as_raw();
    let no_owner = Privileges {
        owner: false,
        ..everything
    };
    // Another user's program must not run as the restoring user.
    let (found, shortfalls) = finish(no_owner);
    assert_eq!((found.uid, found.mode), (ours, 0o755));
    assert_eq!(shortfalls.owners_not_set, 0);
    let no_xattrs = Privileges {
        xattrs: false,
        ..no_owner
    };
    let (found, shortfalls) = finish(no_xattrs);
    assert_none(&shortfalls);
    assert_eq!(found.xattrs, Vec::new());
    if !everything.change_owner {
        eprintln!("SKIPPED: giving files away needs root");
        return;
    }
    // cap_net_raw+ep, as `setcap` writes it.
    let mut capability = 0x0200_0001u32.to_le_bytes().to_vec();
    capability.extend(0x2000u32.to_le_bytes());
    capability.extend([0; 12]);
    wanted
        .xattrs
        .insert(0, (b"security.capability".to_vec(), capability));
    let finish = |privileges: Privileges| {
        let file = directory.create_file(c"f", Placement::Replace).unwrap();
        let mut shortfalls = Shortfalls::default();
        file.finish(&wanted, 0, privileges, &mut shortfalls)
            .unwrap();
        let names = capture(top.path(), c"f").entry;
        let has = names.xattrs.iter().any(|(n, _)| n == CAPABILITIES_NAME);
        (names.uid, names.mode, has, shortfalls.warnings.is_empty())
    };
    let (uid, mode, has, fits) = finish(everything);
    if !fits {
        eprintln!("SKIPPED: this file system has no capabilities");
        return;
    }
    assert_eq!((uid, mode, has), (12345, 0o6755, true));
    let no_setuid = Privileges {
        set_id: false,
        ..everything
    };
    assert_eq!(finish(no_setuid), (12345, 0o755, false, true));
}

const CAPABILITIES_NAME: &[u8] = b"security.capability";

/// The owner of the directory replaces the file of the first name.
#[test]
fn a_first_name_that_was_replaced_is_not_linked() {
    let (top, directory) = target();
    let file = directory.create_file(c"f", Placement::Replace).unwrap();
    let made = file
        .finish(&file_entry(), 0, OURS, &mut Shortfalls::default())
        .unwrap();
    fs::rename(top.path().join("f"), top.path().join("moved")).unwrap();
    fs::write(top.path().join("f"), b"theirs").unwrap();
    assert!(directory.link(c"g", &directory, c"f", made).is_err());
    assert!(!top.path().join("g").exists());
    // A hard link to a symbolic link is a name of the link itself.
    let link = entry(EntryKind::Symlink {
        target: b"f".to_vec(),
    });
    let mut shortfalls = Shortfalls::default();
    let made = directory.place(c"l", &link, OURS, &mut shortfalls).unwrap();
    directory.link(c"m", &directory, c"l", made).unwrap();
    let inode = |name: &str| fs::symlink_metadata(top.path().join(name)).unwrap().ino();
    assert_eq!(inode("l"), inode("m"));
}
