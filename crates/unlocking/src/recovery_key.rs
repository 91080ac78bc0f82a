//! Recovery keys as text that can be printed, kept in a safe and typed in again. `init`, `key` and
//! the password sources call this.
//!
//! Invariant: a key is 256 random bits and is derived from nothing. Check digits tell a mistyped
//! key from a wrong one. The file is created with mode 0600 and is durable before a pool depends on
//! it.

use crate::first_line;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use terminal::command_context::CommandContext;
use terminal::environment::SettingError;
use zeroize::{Zeroize, Zeroizing};

/// First word of the line.
const PREFIX: &str = "quintet-recovery-1";
/// Hex digits of key and check digits in one group.
const GROUP_DIGITS: usize = 8;
const CHECK_BYTES: usize = 4;
/// Upper limit of the line's length, bytes.
const TEXT_BYTES_MAX: usize = 128;

/// The key. Wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct RecoveryKey(pub [u8; 32]);

impl RecoveryKey {
    /// Generates a key.
    pub fn random(random: &dyn media::Random) -> Self {
        let mut key = [0; 32];
        random.fill(&mut key);
        Self(key)
    }

    fn check(&self) -> [u8; CHECK_BYTES] {
        let derived = chunking::derive_key("Quintet 2026-11 recovery key check digits", &self.0);
        let [a, b, c, d, ..] = derived;
        [a, b, c, d]
    }

    /// Returns one line: `quintet-recovery-1 8a477f59-7d28d172-...`.
    pub fn text(&self) -> Zeroizing<String> {
        // The string never grows, because growing would leave copies in freed memory.
        let mut text = Zeroizing::new(String::with_capacity(TEXT_BYTES_MAX));
        text.push_str(PREFIX);
        for (number, byte) in self.0.iter().chain(&self.check()).enumerate() {
            match number {
                0 => text.push(' '),
                _ if number % (GROUP_DIGITS / 2) == 0 => text.push('-'),
                _ => {}
            }
            for digit in [byte >> 4, byte & 15] {
                text.extend(char::from_digit(digit.into(), 16));
            }
        }
        text
    }

    /// Parses the output of [`RecoveryKey::text`]. Spaces, dashes and case do not matter.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let body = text.trim();
        let body = match body.get(..PREFIX.len()) {
            Some(start) if start.eq_ignore_ascii_case(PREFIX) => {
                body.get(PREFIX.len()..).unwrap_or_default()
            }
            _ => return Err("it is not a recovery key: it does not begin with quintet-recovery-1"),
        };
        let mut bytes = Zeroizing::new([0; 32 + CHECK_BYTES]);
        let mut digits = 0;
        for c in body.chars().filter(|c| !c.is_whitespace() && *c != '-') {
            let digit = c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let digit = digit.ok_or("it contains a character that is not a hexadecimal digit")?;
            if let Some(byte) = bytes.get_mut(digits / 2) {
                *byte = *byte << 4 | digit;
            }
            digits += 1;
        }
        if digits != 2 * (32 + CHECK_BYTES) {
            return Err("it does not have 72 digits");
        }
        let (key, check) = bytes.split_at(32);
        let key = Self(key.try_into().map_err(|_| "it does not have 72 digits")?);
        match key.check() == check {
            true => Ok(key),
            false => Err("it is mistyped: its last 8 digits do not match the others"),
        }
    }

    /// Reads the key from a file.
    pub fn read(path: &Path, context: &CommandContext) -> Result<Self, SettingError> {
        let name = "recovery key file";
        let line = Zeroizing::new(first_line::first_line(name, path, context)?.into_vec());
        let text = String::from_utf8_lossy(&line);
        Self::parse(&text)
            .map_err(|why| SettingError::new(name, format!("{}: {why}", path.display())))
    }

    /// Writes the key to a new file with mode 0600, which is durable on return. Fails if the file
    /// exists.
    pub fn write(&self, path: &Path) -> Result<(), SettingError> {
        let write = || -> std::io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)?;
            writeln!(file, "{}", *self.text())?;
            file.sync_all()?;
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
        };
        write().map_err(|e| {
            SettingError::new(
                "recovery key file",
                format!("cannot write {}: {}", path.display(), units::reason(&e)),
            )
        })
    }
}

impl Drop for RecoveryKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for RecoveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryKey(..)")
    }
}
