//! The file of `--iscsi-access`. `serve` reads it before it opens anything, and a thread of the
//! server again while it runs.
//!
//! Invariant: secrets are never taken from a file that other users can read or write.
//! [`TargetRules`] says what the file may contain.

use crate::TargetRules;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use terminal::environment::{Environment, SettingError};

const NAME: &str = "--iscsi-access";
/// Maximum size of the file, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file of the rules.
pub struct AccessFile {
    path: PathBuf,
    environment: Environment,
}

impl AccessFile {
    /// Takes the file at `path`. Services have credentials: `environment` says where.
    pub fn new(path: &Path, environment: &Environment) -> Self {
        Self {
            path: path.to_owned(),
            environment: environment.clone(),
        }
    }

    /// Reads the rules.
    pub fn rules(&self) -> Result<TargetRules, SettingError> {
        let rules = self.text().and_then(|text| self.parse(&text));
        rules.map_err(|why| SettingError::new(NAME, why))
    }

    /// Parses a text of the file. An error names the file.
    pub(crate) fn parse(&self, text: &str) -> Result<TargetRules, String> {
        let place = self.path.display();
        TargetRules::parse(text).map_err(|e| format!("{place}, {e}"))
    }

    /// Reads the text. The file must belong to this user or root, and others may neither read nor
    /// write it. Credentials of a service are exempt: their access list looks like permissions of a
    /// group. An error names the file.
    pub(crate) fn text(&self) -> Result<String, String> {
        let place = self.path.display();
        let refuse = |why: &dyn fmt::Display| format!("{place}: {why}");
        let system = |e| refuse(&units::reason(&e));
        // The same file is checked and read, whatever its name leads to meanwhile.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = openat(CWD, &self.path, flags, Mode::empty()).map_err(|e| system(e.into()))?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(system)?;
        if !metadata.is_file() {
            return Err(refuse(&"it is no regular file"));
        }
        let credentials = self.environment.value("CREDENTIALS_DIRECTORY");
        if !credentials.is_some_and(|directory| self.path.starts_with(directory)) {
            let (mode, owner) = (metadata.mode() & 0o777, metadata.uid());
            if mode & 0o077 != 0 {
                return Err(refuse(&format_args!(
                    "other users can read or write its secrets (mode {mode:04o}); run chmod 600 \
                     {place}"
                )));
            }
            if owner != 0 && owner != rustix::process::geteuid().as_raw() {
                return Err(refuse(&format_args!(
                    "it belongs to another user ({owner}); give it to the user of the server"
                )));
            }
        }
        let mut bytes = Vec::new();
        let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(system)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(refuse(&"it is longer than 1 MiB"));
        }
        let text = units::lines::unmarked(&bytes).map_err(|e| refuse(&e))?;
        let text = std::str::from_utf8(text).map_err(|e| refuse(&e))?;
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_that_others_can_read_are_refused() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("access");
        let text = "user = web\nsecret = a secret of theirs\ninitiator = iqn.x:a\n";
        let rules = TargetRules::parse(text).unwrap();
        write(&path, text).unwrap();
        let none = Environment::default();
        let rules_of = |environment: &Environment| AccessFile::new(&path, environment).rules();
        for mode in [0o644, 0o640, 0o620, 0o604, 0o601] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let said = rules_of(&none).unwrap_err().to_string();
            assert!(said.contains(&format!("mode {mode:04o}")), "{said}");
            assert!(said.contains("chmod 600"), "{said}");
        }
        // A credential of a service.
        let service = Environment::of(&[("CREDENTIALS_DIRECTORY", top.path().to_str().unwrap())]);
        assert_eq!(rules_of(&service), Ok(rules.clone()));
        for mode in [0o400, 0o600] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(rules_of(&none), Ok(rules.clone()));
        }
        write(&path, "user\n").unwrap();
        let said = rules_of(&none).unwrap_err().to_string();
        assert!(said.contains("access, line 1: "), "{said}");
        let missing = AccessFile::new(&top.path().join("none"), &none);
        let missing = missing.rules().unwrap_err();
        assert!(missing.to_string().contains("no such file"), "{missing}");
    }
}
