use super::*;
use format::recipe::ObjectRoot;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

fn entry(kind: EntryKind) -> Entry {
    Entry {
        name: Vec::new(),
        kind,
        mode: 0o640,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        modified: Timestamp {
            seconds: 1_000_000_000,
            nanos: 123_456_789,
        },
        changed: Timestamp::default(),
        inode: 0,
        device: 0,
        links: 1,
        xattrs: Vec::new(),
    }
}

fn file(len: u64) -> Entry {
    entry(EntryKind::File {
        content: ObjectRoot {
            len,
            ..ObjectRoot::EMPTY
        },
        sparse: false,
    })
}

#[test]
fn tar_restores_it() {
    let mut archive = Vec::new();
    let mut add = |path: &[u8], entry: &Entry, link: Option<&[u8]>, content: &[u8]| {
        let member = Member {
            path,
            entry,
            hard_link_to: link,
            owners: &OwnerNames::default(),
        };
        assert_eq!(member.content_len(), content.len() as u64);
        archive.extend(member.header().unwrap());
        archive.extend_from_slice(content);
        archive.extend(vec![0; padding(content.len() as u64)]);
    };
    let long = [&b"d/"[..], &[b'n'; 200], b"\xff\n"].concat();
    let directory = entry(EntryKind::Directory {
        content: ObjectRoot::EMPTY,
    });
    let link = entry(EntryKind::Symlink {
        target: vec![b't'; 150],
    });
    let mut old = file(0);
    old.modified = Timestamp {
        seconds: -2,
        nanos: 250_000_000,
    };
    add(b"d", &directory, None, b"");
    add(&long, &file(5), None, b"hello");
    add(b"d/same", &file(5), Some(&long), b"");
    add(b"d/link", &link, None, b"");
    add(b"old", &old, None, b"");
    add(b"pipe", &entry(EntryKind::Fifo), None, b"");
    archive.extend(end());
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("archive");
    fs::write(&path, &archive).unwrap();
    let Ok(output) = Command::new("tar")
        .args(["-xpf", "archive"])
        .current_dir(top.path())
        .output()
    else {
        eprintln!("SKIPPED: tar is not installed");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let at = |name: &[u8]| top.path().join(std::ffi::OsStr::from_bytes(name));
    assert_eq!(fs::read(at(&long)).unwrap(), b"hello");
    let meta = fs::metadata(at(&long)).unwrap();
    assert_eq!(
        (meta.mtime(), meta.mtime_nsec()),
        (1_000_000_000, 123_456_789)
    );
    assert_eq!(meta.mode() & 0o7777, 0o640);
    assert_eq!(meta.ino(), fs::metadata(at(b"d/same")).unwrap().ino());
    let target = fs::read_link(at(b"d/link")).unwrap();
    assert_eq!(target.as_os_str().as_bytes(), vec![b't'; 150]);
    let old = fs::metadata(at(b"old")).unwrap();
    assert_eq!((old.mtime(), old.mtime_nsec()), (-2, 250_000_000));
}

#[test]
fn numbers_that_do_not_fit() {
    let mut big = file(1 << 40);
    big.uid = 0x8000_0000;
    big.xattrs = vec![(b"user.a".to_vec(), b"b\0c".to_vec())];
    let member = Member {
        path: b"big",
        entry: &big,
        hard_link_to: None,
        owners: &OwnerNames::default(),
    };
    let header = member.header().unwrap();
    assert_eq!(header.len() % 512, 0);
    let text = String::from_utf8_lossy(&header).into_owned();
    for record in [
        " size=1099511627776\n",
        " uid=2147483648\n",
        "SCHILY.xattr.user.a=b\0c\n",
    ] {
        assert!(text.contains(record), "{record}");
    }
}

#[test]
fn records_count_themselves() {
    for len in [0, 1, 90, 91, 92, 93, 988, 989, 990, 991, 992] {
        let mut out = Vec::new();
        record(&mut out, b"name", &vec![b'x'; len]);
        let said: usize = String::from_utf8_lossy(&out)
            .split(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap();
        assert_eq!(said, out.len());
    }
}

#[test]
fn sockets_have_no_place() {
    let socket = entry(EntryKind::Socket);
    let member = Member {
        path: b"s",
        entry: &socket,
        hard_link_to: None,
        owners: &OwnerNames::default(),
    };
    assert!(member.header().is_none());
}

#[test]
fn owners_have_names() {
    let mut owned = file(0);
    (owned.uid, owned.gid) = (7, 8);
    let long = "g".repeat(40);
    let mut owners = OwnerNames::default();
    assert!(owners.add_user(7, "alice") && owners.add_group(8, &long));
    let member = Member {
        path: b"owned",
        entry: &owned,
        hard_link_to: None,
        owners: &owners,
    };
    let archive = [member.header().unwrap(), end()].concat();
    assert!(String::from_utf8_lossy(&archive).contains(&format!(" gname={long}\n")));
    let top = tempfile::tempdir().unwrap();
    fs::write(top.path().join("archive"), &archive).unwrap();
    let Ok(listed) = Command::new("tar")
        .args(["-tvf", "archive"])
        .current_dir(top.path())
        .output()
    else {
        eprintln!("SKIPPED: tar is not installed");
        return;
    };
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains(&format!("alice/{long} ")), "{listed}");
}
