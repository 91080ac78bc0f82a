//! View of a process on the file system: which files it sees, and as which user. The control socket
//! compares the views of client and server.
//!
//! Invariant: a server runs a command that touches the user's files only if both have the same
//! view. A service with a private `/tmp` would otherwise store another `/tmp` than the user meant.

use std::io;
use std::os::unix::fs::MetadataExt;

/// Two processes with equal views open the same files by the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Mount namespace: device and inode.
    pub mounts: [u64; 2],
    /// Root directory: device and inode.
    pub top: [u64; 2],
    /// Effective user and group.
    pub user: [u32; 2],
}

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
        (self != client).then(|| {
            "the server of this pool sees other files under the same names (a container, or a \
             service with PrivateTmp= or ProtectHome=); run this command where the server runs, or \
             stop the server"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_will_do() {
        let own = View::own().unwrap();
        assert_eq!(own.refusal(&own), None);
        let elsewhere = View {
            mounts: [0, 1],
            ..own
        };
        assert!(own.refusal(&elsewhere).unwrap().contains("PrivateTmp"));
        let somebody = View {
            user: [1, u32::MAX],
            ..own
        };
        assert!(own.refusal(&somebody).unwrap().contains("runs as user"));
    }
}
