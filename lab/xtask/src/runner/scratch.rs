//! Scratch folders of a run, in one place, and the removal of everything that lies on them.
//!
//! Invariant: a folder belongs to the process that its name and its file `owner` tell. Folders
//! whose process has ended are removed by the next run, with the processes, mounts and loop devices
//! on them.

use super::command::{run, run_bounded};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Sockets in it have short paths: the system allows 107 bytes.
const PREFIX: &str = "quintet-test.";
/// How long processes have to end by themselves after their script.
const GRACE: Duration = Duration::from_secs(5);

/// Returns the directory of all scratch folders: `TMPDIR`, or /tmp.
pub fn parent() -> PathBuf {
    std::env::temp_dir()
}

/// The folder of this run. It is removed at the end.
pub struct Scratch {
    folder: PathBuf,
    next: AtomicUsize,
}

impl Scratch {
    /// Makes the folder of this process below `parent`, after removing abandoned ones.
    pub fn new(parent: &Path) -> io::Result<Self> {
        clear_abandoned(parent);
        let me = std::process::id();
        let folder = parent.join(format!("{PREFIX}{me}"));
        open_folder(&folder)?;
        fs::write(folder.join("owner"), begun(me).unwrap_or_default())?;
        let next = AtomicUsize::new(0);
        Ok(Self { folder, next })
    }

    /// Calls `f` with a new, empty folder, which is removed afterwards.
    pub fn with_folder<T>(&self, f: impl FnOnce(&Path) -> T) -> T {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(number.to_string());
        // A job whose folder is missing fails by itself.
        let _ = open_folder(&folder);
        let result = f(&folder);
        remove(&folder);
        result
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        clear(&self.folder);
        remove(&self.folder);
    }
}

/// Makes a folder that other users may enter, as some tests run programs as one of them.
fn open_folder(folder: &Path) -> io::Result<()> {
    let made = fs::create_dir(folder);
    made.and_then(|()| fs::set_permissions(folder, fs::Permissions::from_mode(0o755)))
        .map_err(|e| io::Error::new(e.kind(), format!("cannot make {}: {e}", folder.display())))
}

/// Removes the folders below `parent` whose processes have ended, and what lies on them.
pub fn clear_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let Some(owner) = owner.and_then(|owner| owner.parse().ok()) else {
            continue;
        };
        let folder = entry.path();
        if !is_ours(&entry) {
            continue;
        }
        let noted = fs::read_to_string(folder.join("owner")).ok();
        // A number may be used again, by a process that began at another time.
        if begun(owner).is_some_and(|begun| noted.is_none_or(|noted| noted == begun)) {
            continue;
        }
        let left = clear(&folder);
        remove(&folder);
        println!(
            "removed {}, of a run that was killed: {}",
            folder.display(),
            match left.is_empty() {
                true => "nothing lay on it".to_owned(),
                false => left.join(", "),
            }
        );
    }
}

/// Returns true for a directory of this user. In /tmp, others can make entries of any name: a link
/// of theirs would lead root elsewhere.
fn is_ours(entry: &fs::DirEntry) -> bool {
    // The metadata of an entry are those of a link itself.
    let (Ok(found), Ok(me)) = (entry.metadata(), fs::metadata("/proc/self")) else {
        return false;
    };
    found.is_dir() && found.uid() == me.uid()
}

/// Ends everything that lies on `folder`: file systems, loop devices, FUSE mounts, processes.
/// Returns what there was, but for processes that end by themselves within seconds.
///
/// The order matters. A file system over a loop device over a FUSE file goes first, while the
/// server of the file lives; when that server hangs, its connection is aborted, so that nobody
/// waits for it.
pub fn clear(folder: &Path) -> Vec<String> {
    let mut left = Vec::new();
    let waiting = Instant::now();
    while !processes(folder).is_empty() && waiting.elapsed() < GRACE {
        std::thread::sleep(Duration::from_millis(20));
    }
    for device in loop_devices(folder) {
        for mount in mounts(|mount| mount.source == device) {
            left.push(format!("mount {}", mount.point));
            run_bounded("umount", &["-l", &mount.point]);
        }
        left.push(device.clone());
        run_bounded("losetup", &["-d", &device]);
    }
    let below = format!("{}/", folder.display());
    for mount in mounts(|mount| mount.point.starts_with(&below)) {
        left.push(format!("mount {}", mount.point));
        if mount.kind.starts_with("fuse") {
            let abort = format!("/sys/fs/fuse/connections/{}/abort", mount.minor);
            let _ = fs::write(abort, "1");
        }
        run_bounded("umount", &["-l", &mount.point]);
    }
    for process in processes(folder) {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        left.push(format!("process {}", line.trim()));
        run("kill", &["-KILL", &process.to_string()]);
    }
    left
}

fn remove(folder: &Path) {
    if fs::remove_dir_all(folder).is_err() {
        // Trees without permissions, on a file system that asks for them.
        run_bounded("chmod", &["-R", "u+rwx", &folder.display().to_string()]);
        run_bounded(
            "rm",
            &["-rf", "--one-file-system", &folder.display().to_string()],
        );
    }
}

/// Returns when a process began, in ticks since the start of the system. None: there is no such
/// process.
fn begun(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19).map(str::to_owned)
}

/// Reads the environment of a process. One that just begins to execute a program has none for a
/// moment.
fn environment(process: u32) -> Vec<u8> {
    for _ in 0..100 {
        let found = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        // Threads of the kernel have no program.
        let is_none = || fs::read_link(format!("/proc/{process}/exe")).is_err();
        if !found.is_empty() || is_none() {
            return found;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Vec::new()
}

/// Returns the processes whose environment names `folder`: what a test has started inherits it.
fn processes(folder: &Path) -> Vec<u32> {
    let (whole, below) = (
        format!("TMPDIR={}", folder.display()),
        format!("TMPDIR={}/", folder.display()),
    );
    let is_of = |process: &u32| {
        let environment = environment(*process);
        let mut variables = environment.split(|&byte| byte == 0);
        variables.any(|v| v == whole.as_bytes() || v.starts_with(below.as_bytes()))
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(is_of).collect()
}

/// Returns the loop devices over files in `folder`.
fn loop_devices(folder: &Path) -> Vec<String> {
    let all = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = all.filter_map(|entry| Some(entry.file_name().to_str()?.to_owned()));
    let is_of = |name: &String| {
        let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        file.is_ok_and(|file| Path::new(file.trim_end()).starts_with(folder))
    };
    names
        .filter(is_of)
        .map(|name| format!("/dev/{name}"))
        .collect()
}

struct Mount {
    point: String,
    source: String,
    kind: String,
    minor: String,
}

/// Returns the mounts of this namespace that `wanted` accepts, the newest first.
fn mounts(wanted: impl Fn(&Mount) -> bool) -> Vec<Mount> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut found: Vec<_> = text.lines().filter_map(mount).filter(wanted).collect();
    found.reverse();
    found
}

/// Reads a line of mountinfo: `id parent major:minor root point options [fields] - kind source
/// options`.
fn mount(line: &str) -> Option<Mount> {
    let (place, what) = line.split_once(" - ")?;
    let place: Vec<_> = place.split(' ').collect();
    let mut what = what.split(' ');
    Some(Mount {
        point: place.get(4)?.replace("\\040", " "),
        minor: place.get(2)?.split_once(':')?.1.to_owned(),
        kind: what.next()?.to_owned(),
        source: what.next()?.to_owned(),
    })
}
