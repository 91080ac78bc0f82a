//! Which files a process sees, and as whom.
//!
//! Invariant: a command that reads or writes the user's files runs in a server only when both see
//! the same: a service with a `/tmp` of its own would store another one than the user meant.

use std::io;
use std::os::unix::fs::MetadataExt;

/// Two processes with equal views open the same files under the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Mount name space: device and inode.
    pub mounts: [u64; 2],
    /// Top directory: device and inode.
    pub top: [u64; 2],
    /// Effective user and group.
    pub user: [u32; 2],
}

impl View {
    /// Of this process.
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

    /// Why a command that touches files cannot run here for `client`.
    pub fn refusal(&self, client: &Self) -> Option<String> {
        let [user, group] = self.user;
        if self.user != client.user {
            return Some(format!(
                "the server of this pool runs as user {user}, group {group}, and would touch files as \
                 them: run this as that user, or stop the server"
            ));
        }
        (self != client).then(|| {
            "the server of this pool sees other files under the same names (a container, or a \
             service with PrivateTmp= or ProtectHome=): run this where the server runs, or stop it"
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
