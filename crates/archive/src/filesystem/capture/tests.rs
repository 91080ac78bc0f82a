use super::*;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::Instant;

fn tree() -> (tempfile::TempDir, Directory) {
    let top = tempfile::tempdir().unwrap();
    let directory = Directory::open(top.path()).unwrap();
    (top, directory)
}

#[test]
fn names_are_sorted_bytes() {
    let (top, directory) = tree();
    let names: [&[u8]; 5] = [b"b", b"\xff\xfe not text", b"A", b"a b\nc", b".hidden"];
    for name in names {
        fs::write(top.path().join(as_path(name)), b"").unwrap();
    }
    let mut expected: Vec<&[u8]> = names.to_vec();
    expected.sort_unstable();
    let found = directory.names().unwrap();
    let found: Vec<&[u8]> = found.iter().map(|n| n.to_bytes()).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_large_directory_is_listed_whole() {
    let (top, directory) = tree();
    for i in 0..3000 {
        fs::write(
            top.path()
                .join(format!("file with a rather long name {i:06}")),
            b"",
        )
        .unwrap();
    }
    assert_eq!(directory.names().unwrap().len(), 3000);
    assert_eq!(directory.names().unwrap().len(), 3000);
}

#[test]
fn metadata_agree_with_the_standard_library() {
    let (top, directory) = tree();
    let path = top.path().join("file");
    fs::write(&path, b"hello").unwrap();
    fs::hard_link(&path, top.path().join("other name")).unwrap();
    let captured = directory.capture(c"file", &mut Vec::new()).unwrap();
    let expected = fs::symlink_metadata(&path).unwrap();
    let entry = &captured.entry;
    assert_eq!(captured.len, 5);
    assert_eq!(entry.name, b"file");
    assert_eq!(entry.mode, expected.mode() & 0o7777);
    assert_eq!((entry.uid, entry.gid), (expected.uid(), expected.gid()));
    assert_eq!(entry.modified.seconds, expected.mtime());
    assert_eq!(i64::from(entry.modified.nanos), expected.mtime_nsec());
    assert_eq!(i64::from(entry.changed.nanos), expected.ctime_nsec());
    assert_eq!(
        (entry.inode, entry.device),
        (expected.ino(), expected.dev())
    );
    assert_eq!(entry.links, 2);
}

#[test]
fn types() {
    let (top, directory) = tree();
    symlink("../\u{fc}ber/nowhere", top.path().join("link")).unwrap();
    fs::create_dir(top.path().join("directory")).unwrap();
    rustix::fs::mknodat(&directory, c"pipe", FileType::Fifo, Mode::RUSR, 0).unwrap();
    rustix::fs::mknodat(&directory, c"socket", FileType::Socket, Mode::RUSR, 0).unwrap();
    let kind = |name| directory.stat(name).unwrap().entry.kind;
    let target = "../\u{fc}ber/nowhere".as_bytes().to_vec();
    assert_eq!(kind(c"link"), EntryKind::Symlink { target });
    assert!(matches!(kind(c"directory"), EntryKind::Directory { .. }));
    assert_eq!(kind(c"pipe"), EntryKind::Fifo);
    assert_eq!(kind(c"socket"), EntryKind::Socket);
    let null = Directory::open(Path::new("/dev"))
        .unwrap()
        .stat(c"null")
        .unwrap();
    let device = fs::metadata("/dev/null").unwrap().rdev();
    assert_eq!(null.entry.kind, EntryKind::CharDevice { device });
}

#[test]
fn attributes_by_name_and_by_handle() {
    let (top, directory) = tree();
    let path = top.path().join("file");
    fs::write(&path, b"").unwrap();
    let long = vec![7; 3000];
    let set = |name: &CStr, value: &[u8]| {
        rustix::fs::setxattr(&path, name, value, rustix::fs::XattrFlags::empty())
    };
    if set(c"user.b", b"").is_err() {
        eprintln!("SKIPPED: this file system has no user attributes");
        return;
    }
    set(c"user.a", &long).unwrap();
    let expected = vec![(b"user.a".to_vec(), long), (b"user.b".to_vec(), Vec::new())];
    let mut unreadable = Vec::new();
    assert_eq!(directory.xattrs(c"file", &mut unreadable), expected);
    let opened = directory.open_file(c"file").unwrap();
    assert_eq!(opened.xattrs(&mut unreadable), expected);
    let holder = XattrHolder::beneath(&directory, b"", c"file");
    assert_eq!(xattrs::read_all(&holder, &mut unreadable), expected);
    assert!(unreadable.is_empty(), "{unreadable:?}");
}

#[test]
fn links_are_not_opened_and_pipes_do_not_block() {
    let (top, directory) = tree();
    fs::write(top.path().join("file"), b"x").unwrap();
    symlink("file", top.path().join("link")).unwrap();
    symlink(".", top.path().join("here")).unwrap();
    rustix::fs::mknodat(&directory, c"pipe", FileType::Fifo, Mode::RUSR, 0).unwrap();
    assert!(directory.open_file(c"link").is_err());
    assert!(directory.open_child(c"here").is_err());
    let error = directory.open_file(c"pipe").unwrap_err();
    assert!(error.to_string().contains("regular file"), "{error}");
}

#[test]
fn what_is_missing_names_its_path() {
    let (_top, directory) = tree();
    let error = directory.stat(c"nothing").unwrap_err();
    assert!(error.is_not_found());
    assert!(error.path.as_os_str().as_bytes().ends_with(b"/nothing"));
}

#[test]
fn paths_longer_than_the_kernel_takes() {
    let (_top, mut directory) = tree();
    let name = CString::new(vec![b'd'; 250]).unwrap();
    for _ in 0..20 {
        rustix::fs::mkdirat(&directory, &name, Mode::RWXU).unwrap();
        directory = directory.open_child(&name).unwrap();
    }
    rustix::fs::mkdirat(&directory, c"last", Mode::RWXU).unwrap();
    let mut unreadable = Vec::new();
    assert!(directory.capture(c"last", &mut unreadable).is_ok());
    assert!(unreadable.is_empty(), "{unreadable:?}");
}

#[test]
fn changes_are_seen() {
    let (top, directory) = tree();
    let path = top.path().join("file");
    fs::write(&path, b"12345").unwrap();
    let before = directory.stat(c"file").unwrap();
    let mut stored = before.entry.clone();
    stored.kind = EntryKind::File {
        content: ObjectRoot {
            len: 5,
            ..ObjectRoot::EMPTY
        },
        sparse: false,
    };
    let is_same = |captured: &Captured, stored: &Entry, inode, changed| {
        captured.unchanged_since(stored, Sameness { inode, changed })
    };
    assert!(is_same(&before, &stored, true, true));
    let opened = directory.open_file(c"file").unwrap();
    assert!(!opened.changed_since(&before).unwrap());
    let mut bytes = [0; 10];
    assert_eq!(opened.read_at(2, &mut bytes).unwrap(), 3);
    fs::write(&path, b"123456").unwrap();
    let now = directory.stat(c"file").unwrap();
    assert!(!is_same(&now, &stored, false, false));
    assert!(opened.changed_since(&before).unwrap());
    let mut copied = stored.clone();
    copied.inode += 1;
    assert!(!is_same(&before, &copied, true, false) && is_same(&before, &copied, false, true));
    copied.changed.nanos ^= 1;
    assert!(!is_same(&before, &copied, false, true) && is_same(&before, &copied, false, false));
    copied.modified.nanos ^= 1;
    assert!(!is_same(&before, &copied, false, false));
}

/// Prints the cost of capturing; run with `--ignored --nocapture` on a warm cache.
#[test]
#[ignore = "prints times, asserts nothing"]
fn cost_of_capturing_usr() {
    fn walk(directory: &Directory, xattrs: bool) -> u64 {
        let mut count = 0;
        for name in directory.names().unwrap() {
            let captured = match xattrs {
                true => directory.capture(&name, &mut Vec::new()),
                false => directory.stat(&name),
            };
            count += 1;
            if matches!(captured.unwrap().entry.kind, EntryKind::Directory { .. }) {
                count += walk(&directory.open_child(&name).unwrap(), xattrs);
            }
        }
        count
    }
    let top = Directory::open(Path::new("/usr")).unwrap();
    for xattrs in [false, true, false, true, false, true] {
        let start = Instant::now();
        let count = walk(&top, xattrs);
        let each = start.elapsed() / u32::try_from(count).unwrap();
        println!("xattrs {xattrs}: {count} entries, {each:?} each");
    }
}

/// If a directory was swapped, the capabilities of another file must not be stored.
#[test]
fn attributes_are_those_of_the_directory_that_is_open() {
    let (top, _) = tree();
    let set = |path: &str, value: &[u8]| {
        let path = top.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, b"").unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&path, c"user.whose", value, flags).is_ok()
    };
    if !set("d/file", b"ours") || !set("other/file", b"theirs") {
        eprintln!("SKIPPED: this file system has no user attributes");
        return;
    }
    let directory = Directory::open(&top.path().join("d")).unwrap();
    fs::rename(top.path().join("d"), top.path().join("moved")).unwrap();
    symlink("other", top.path().join("d")).unwrap();
    let mut unreadable = Vec::new();
    let found = directory.xattrs(c"file", &mut unreadable);
    assert_eq!(found, [(b"user.whose".to_vec(), b"ours".to_vec())]);
}
