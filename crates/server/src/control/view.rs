//! View of a process on the file system: which files it sees, and as which user. The control socket
//! compares the views of client and server.
//!
//! Invariant: a server runs a command that touches the user's files only if both have the same
//! view. A service with a private `/tmp` would otherwise store another `/tmp` than the user meant.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Two processes with equal views open the same files by the same names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Mount namespace: device and inode.
    pub mounts: [u64; 2],
    /// Root directory: device and inode.
    pub top: [u64; 2],
    /// Effective user and group.
    pub user: [u32; 2],
    /// Mount points and what they show. Compared if the mount namespaces differ: a service with
    /// `ProtectSystem=` has one of its own, and sees the same files.
    pub shown: Shown,
}

/// Mount points as `mountinfo` of proc(5) writes them, with the device and the directory of it that
/// is shown there. Without those that show what would be there anyway, and without the kernel's own
/// files and those of systemd, where no user's files are.
pub type Shown = BTreeMap<Vec<u8>, Vec<u8>>;

/// Below these are no files that a user could mean.
const NOT_OF_USERS: [&[u8]; 4] = [b"/proc", b"/sys", b"/run/credentials", b"/run/systemd"];

impl View {
    /// Returns the view of this process.
    pub fn own() -> io::Result<Self> {
        let identity = |path: &str| {
            let found = std::fs::metadata(path)?;
            Ok::<_, io::Error>([found.dev(), found.ino()])
        };
        Ok(Self {
            mounts: identity("/proc/self/ns/mnt")?,
            top: identity("/")?,
            user: [
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ],
            shown: shown(&std::fs::read("/proc/self/mountinfo")?),
        })
    }

    /// Returns why a command of `client` that touches files cannot run here. `None` if it can.
    pub fn refusal(&self, client: &Self) -> Option<String> {
        let [user, group] = self.user;
        if self.user != client.user {
            return Some(format!(
                "the server of this pool runs as user {user}, group {group}, and would access files as that user; \
                 run this command as that user, or stop the server"
            ));
        }
        if self.mounts == client.mounts && self.top == client.top {
            return None;
        }
        let place = self.first_difference(client)?;
        Some(format!(
            "the server of this pool sees other files in {place} (a container, or a service with PrivateTmp= or \
             ProtectHome=); run this command where the server runs, or stop the server"
        ))
    }

    /// Returns why `client` would not see a mount that the server makes. `None` if it would.
    pub fn mount_refusal(&self, client: &Self) -> Option<String> {
        (self.mounts != client.mounts).then(|| {
            "the server of this pool has mounts of its own (a container, or a service with ProtectSystem= or the \
             like), so you would not see what it mounts; run this command where the server runs, or stop the server"
                .to_owned()
        })
    }

    /// Returns a directory where the two see different files.
    fn first_difference(&self, other: &Self) -> Option<String> {
        if self.top != other.top {
            return Some("/".to_owned());
        }
        let differs = |one: &Shown, other: &Shown| {
            let found = one
                .iter()
                .find(|(point, what)| other.get(*point) != Some(what));
            found.map(|(point, _)| String::from_utf8_lossy(point).into_owned())
        };
        differs(&self.shown, &other.shown).or_else(|| differs(&other.shown, &self.shown))
    }
}

/// Parses lines `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`. Of several mounts
/// at one point the last is seen.
fn shown(table: &[u8]) -> Shown {
    let mut all: BTreeMap<&[u8], (&[u8], &[u8])> = BTreeMap::new();
    for line in table.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        if let (Some(device), Some(top), Some(point)) =
            (fields.next(), fields.next(), fields.next())
        {
            all.insert(point, (device, top));
        }
    }
    let is_of_users = |point: &[u8]| {
        let mut tops = NOT_OF_USERS.iter();
        !tops.any(|top| rest_below(point, top).is_some())
    };
    let adds = |point: &[u8], device: &[u8], top: &[u8]| {
        let above = ancestors(point).find_map(|above| Some((above, all.get(above)?)));
        above.is_none_or(|(above, (its_device, its_top))| {
            let rest = rest_below(point, above).unwrap_or_default();
            let its_top = its_top.strip_suffix(b"/").unwrap_or(its_top);
            device != *its_device || top != [its_top, rest].concat()
        })
    };
    all.iter()
        .filter(|(point, (device, top))| is_of_users(point) && adds(point, device, top))
        .map(|(point, (device, top))| (point.to_vec(), [*device, b" ", *top].concat()))
        .collect()
}

/// Returns the directories above a path, the nearest first.
fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(parent(path), |path| parent(path))
}

fn parent(path: &[u8]) -> Option<&[u8]> {
    match path.iter().rposition(|byte| *byte == b'/')? {
        0 if path.len() == 1 => None,
        0 => path.get(..1),
        slash => path.get(..slash),
    }
}

/// Returns what follows `top` in a path that is it or lies below it: nothing, or from the slash on.
fn rest_below<'a>(path: &'a [u8], top: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(top.strip_suffix(b"/").unwrap_or(top))?;
    (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As another process of a mount namespace of its own sees it.
    fn elsewhere(table: &[u8]) -> View {
        View {
            mounts: [0, 1],
            shown: shown(table),
            ..View::own().unwrap()
        }
    }

    const MACHINE: &[u8] = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
        2 1 0:20 / /proc rw - proc proc rw\n\
        3 1 8:2 /sub /srv rw - btrfs /dev/sda2 rw\n\
        4 1 0:30 / /tmp rw - tmpfs tmpfs rw\n";

    #[test]
    fn only_the_same_will_do() {
        let own = View::own().unwrap();
        assert_eq!(own.refusal(&own), None);
        let machine = View {
            mounts: [0, 2],
            ..elsewhere(MACHINE)
        };
        let private = [
            MACHINE,
            b"5 1 8:1 /tmp/private /tmp rw - ext4 /dev/sda1 rw\n",
        ]
        .concat();
        let why = machine.refusal(&elsewhere(&private)).unwrap();
        assert!(
            why.contains("sees other files in /tmp (") && why.contains("PrivateTmp"),
            "{why}"
        );
        let hidden = [MACHINE, b"5 1 0:31 / /home ro - tmpfs tmpfs ro\n"].concat();
        let hidden = elsewhere(&hidden);
        assert!(machine.refusal(&hidden).unwrap().contains("in /home ("));
        assert!(hidden.refusal(&machine).unwrap().contains("in /home ("));
        let contained = View {
            top: [0, 2],
            ..machine.clone()
        };
        assert!(machine.refusal(&contained).unwrap().contains("in / ("));
        assert!(
            machine
                .mount_refusal(&own)
                .unwrap()
                .contains("would not see")
        );
        assert_eq!(own.mount_refusal(&own), None);
        let other = View {
            user: [1, u32::MAX],
            ..own.clone()
        };
        assert!(own.refusal(&other).unwrap().contains("runs as user"));
    }

    /// `ProtectSystem=strict` with `ReadWritePaths=`, and what systemd hides of the kernel.
    #[test]
    fn a_service_that_may_only_read_sees_the_same_files() {
        let service = [
            MACHINE,
            b"5 1 8:1 /var/lib /var/lib rw - ext4 /dev/sda1 rw\n\
              6 3 8:2 /sub/pool /srv/pool rw - btrfs /dev/sda2 rw\n\
              7 2 0:31 /inaccessible /proc/kallsyms ro - tmpfs tmpfs ro\n\
              8 1 0:32 / /run/credentials/x.service ro - ramfs ramfs ro\n",
        ]
        .concat();
        let (machine, service) = (
            View {
                mounts: [0, 2],
                ..elsewhere(MACHINE)
            },
            elsewhere(&service),
        );
        assert_eq!(machine.refusal(&service), None);
        assert_eq!(service.refusal(&machine), None);
    }
}
