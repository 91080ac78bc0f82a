use super::*;
use crate::{Barrier, Disk, LocalDisk, MediaErrorKind};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;

/// A directory with a pool's top and, beside it, files that must not change.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("below-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("top/sub")).expect("directories");
        fs::create_dir_all(path.join("outside")).expect("directories");
        fs::write(path.join("outside/file"), b"precious").expect("a file");
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns a disk for each way to resolve names.
    fn disks(&self) -> [LocalDisk; 2] {
        [false, true].map(|walks| LocalDisk {
            path_resolver: PathResolver {
                walks,
                ..PathResolver::new(self.at("top"))
            },
        })
    }

    fn is_untouched(&self) {
        assert_eq!(
            fs::read(self.at("outside/file")).expect("read"),
            b"precious"
        );
        assert_eq!(fs::read_dir(self.at("outside")).expect("list").count(), 1);
        let mode = self.at("outside").metadata().expect("stat").mode();
        assert_eq!(mode & 0o777, 0o755);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_refused<T>(result: Result<T, MediaError>, why: &str) {
    match result {
        Ok(_) => panic!("not refused"),
        Err(e) => {
            assert_eq!(e.kind, MediaErrorKind::Io, "{e}");
            assert!(e.to_string().contains(why), "{e}");
        }
    }
}

#[test]
fn links_lead_nowhere() {
    let place = Place::new("links");
    fs::set_permissions(place.at("outside"), fs::Permissions::from_mode(0o755)).expect("mode");
    fs::write(place.at("top/sub/own"), b"own").expect("a file");
    symlink("../outside/file", place.at("top/file")).expect("link");
    symlink("../outside/new", place.at("top/dangling")).expect("link");
    symlink("../outside", place.at("top/dir")).expect("link");
    symlink("sub/own", place.at("top/inside")).expect("link");
    symlink("/proc/self/fd/0", place.at("top/magic")).expect("link");
    let link = "symbolic link";
    for disk in place.disks() {
        for name in ["file", "dangling", "inside", "magic", "dir/file", "dir/new"] {
            is_refused(disk.open(name, false), link);
            is_refused(disk.open(name, true), link);
            is_refused(disk.open_read(name), link);
            is_refused(disk.lock(name), link);
        }
        is_refused(disk.create_new("dir/new"), link);
        for dir in ["dir", "dir/sub"] {
            is_refused(disk.list(dir), link);
            is_refused(disk.sync_dir(dir, Barrier::DirectoryBeforeNames), link);
        }
        is_refused(disk.make_dir("dir/new"), link);
        is_refused(disk.remove("dir/file"), link);
        is_refused(disk.rename("sub/own", "dir/own"), link);
        is_refused(disk.rename("dir/file", "sub/file"), link);
        is_refused(disk.rename_new("sub/own", "dir/own"), link);
        is_refused(disk.rename_new("dir/file", "sub/file"), link);
        assert!(!disk.make_dir("dir").expect("a name that is taken"));
        assert!(disk.open_read("../outside/file").is_err());
        assert!(disk.open_read("/etc/passwd").is_err());
        assert!(disk.open_read("").is_err());
    }
    place.is_untouched();
    // Links can be renamed and removed: that touches only the link.
    for (disk, name) in place.disks().iter().zip(["file", "dangling"]) {
        fs::write(place.at("top/new"), b"new").expect("a file");
        disk.rename("new", name).expect("rename");
        assert_eq!(fs::read(place.at("top").join(name)).expect("read"), b"new");
        disk.remove(name).expect("remove");
    }
    place.is_untouched();
}

#[test]
fn only_files_with_one_name_are_opened_without_waiting() {
    let place = Place::new("kinds");
    fs::set_permissions(place.at("outside"), fs::Permissions::from_mode(0o755)).expect("mode");
    let name = rustix::fs::CWD;
    let fifo = (FileType::Fifo, Mode::RUSR | Mode::WUSR);
    rustix::fs::mknodat(name, place.at("top/fifo"), fifo.0, fifo.1, 0).expect("fifo");
    let _socket = UnixListener::bind(place.at("top/socket")).expect("bind");
    fs::hard_link(place.at("outside/file"), place.at("top/second")).expect("hard link");
    for disk in place.disks() {
        for name in ["fifo", "socket"] {
            is_refused(disk.open(name, false), "not a regular file");
            is_refused(disk.open(name, true), "not a regular file");
            is_refused(disk.open_read(name), "not a regular file");
            is_refused(disk.lock(name), "not a regular file");
        }
        is_refused(disk.open_read("sub"), "not a regular file");
        is_refused(disk.open("second", true), "another name");
        is_refused(disk.lock("second"), "another name");
        let read = disk.open_read("second").expect("to read it hurts nobody");
        assert_eq!(read.len().expect("len"), 8);
    }
    place.is_untouched();
}

#[test]
fn files_of_third_users_are_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give files away");
        return;
    }
    let place = Place::new("owners");
    for (name, owner) in [("third", 4242), ("owners", 4241), ("roots", 0)] {
        fs::write(place.at("top").join(name), b"x").expect("a file");
        chown(place.at("top").join(name), Some(owner), None).expect("chown");
    }
    chown(place.at("top/sub"), Some(4242), None).expect("chown");
    fs::create_dir(place.at("top/containers")).expect("a directory");
    fs::write(place.at("top/service"), b"x").expect("a file");
    for name in ["top/containers", "top/service"] {
        chown(place.at(name), Some(4243), None).expect("chown");
    }
    chown(place.at("top"), Some(4241), None).expect("chown");
    for disk in place.disks() {
        is_refused(disk.open_read("third"), "belongs to user 4242");
        is_refused(disk.open("third", true), "belongs to user 4242");
        is_refused(disk.list("sub"), "belongs to user 4242");
        is_refused(
            disk.create_new("third")
                .map(|_| ())
                .or(disk.make_dir("sub/x").map(|_| ())),
            "belongs",
        );
        assert!(disk.open("owners", false).is_ok());
        assert!(disk.open("roots", false).is_ok());
        assert!(disk.open("service", false).is_ok());
        assert_eq!(disk.list("containers").expect("list"), []);
    }
}

#[test]
fn what_root_makes_belongs_to_the_owner_of_the_top() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give files away");
        return;
    }
    let place = Place::new("gifts");
    fs::write(place.at("top/roots"), b"x").expect("a file");
    chown(place.at("top"), Some(4241), Some(4242)).expect("chown");
    let owner = |name: &str| {
        let found = place.at("top").join(name).symlink_metadata().expect("stat");
        (found.uid(), found.gid(), found.mode() & 0o777)
    };
    for disk in place.disks() {
        assert!(disk.make_dir("made").expect("make"));
        assert!(!disk.make_dir("made").expect("it is there"));
        disk.create_new("made/new").expect("create");
        disk.open("opened", true).expect("create");
        let lock = disk.lock("made/lock").expect("lock");
        assert!(disk.lock("made/lock").is_err(), "it is locked");
        drop(lock);
        assert_eq!(owner("made"), (4241, 4242, 0o700));
        for name in ["made/new", "opened", "made/lock"] {
            assert_eq!(owner(name), (4241, 4242, 0o600), "{name}");
        }
        // Others' files stay others': their owner could have put them here.
        disk.open("roots", true).expect("open");
        disk.lock("roots").expect("lock");
        assert_eq!(owner("roots").0, 0);
        assert!(disk.create_new("roots").is_err(), "it is there");
        for name in ["made/new", "opened", "made/lock"] {
            disk.remove(name).expect("remove");
        }
        fs::remove_dir(place.at("top/made")).expect("remove");
    }
}

#[test]
fn the_top_is_held_whatever_its_path_leads_to_later() {
    let place = Place::new("held");
    fs::set_permissions(place.at("outside"), fs::Permissions::from_mode(0o755)).expect("mode");
    for disk in place.disks() {
        assert_eq!(disk.list("").expect("list").len(), 1);
        fs::rename(place.at("top"), place.at("moved")).expect("rename");
        symlink("outside", place.at("top")).expect("link");
        disk.create_new("new")
            .expect("in the directory that it was");
        disk.make_dir("made").expect("in the directory that it was");
        assert!(disk.room().is_some());
        disk.remove("new").expect("remove");
        fs::remove_dir(place.at("moved/made")).expect("it is there");
        fs::remove_file(place.at("top")).expect("remove");
        fs::rename(place.at("moved"), place.at("top")).expect("rename");
    }
    place.is_untouched();
}
