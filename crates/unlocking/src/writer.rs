//! Names the process that writes to a pool, and waits for its end. Commands that write call this.
//!
//! Invariant: a process is named only while the kernel says that it has the lock of this pool;
//! otherwise it is "another process". Nothing is shown of a command line that may be secret.

use format::config::Seal;
use media::{Media, MediaErrorKind};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use store::{Pool, SecretKey, StoreError, StoreErrorKind, Unlocked};
use terminal::console::printable;
use terminal::json::Object;
use terminal::shell::Shell;
use units::count;

/// The lock of a pool.
const LOCK: &str = "lock";
/// Time between two looks at it.
const STEP: Duration = Duration::from_millis(200);
/// Longer command lines are cut off, characters.
const WORDS_MAX: usize = 120;

/// A process that writes to a pool, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolWriter {
    /// Its number.
    pub process: Option<u32>,
    /// Its command line.
    pub words: Option<String>,
}

impl fmt::Display for PoolWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.process, &self.words) {
            (Some(process), Some(words)) => write!(f, "`{words}` (process {process})"),
            (Some(process), None) => write!(f, "process {process}"),
            (None, Some(words)) => write!(f, "`{words}`"),
            (None, None) => f.write_str("another process"),
        }
    }
}

impl PoolWriter {
    /// Returns the process that has the lock of the pool in this directory.
    fn of(pool: &Path) -> Self {
        let process = holder(pool);
        let words = process.and_then(words_of);
        // One that has ended since may have left its number to another.
        match process.is_some() && holder(pool) == process {
            true => Self { process, words },
            false => Self {
                process: None,
                words: None,
            },
        }
    }
}

/// Returns the process that the kernel says has the lock.
fn holder(pool: &Path) -> Option<u32> {
    let lock = pool.join(LOCK).metadata().ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let (major, minor) = (rustix::fs::major(lock.dev()), rustix::fs::minor(lock.dev()));
    holder_in(&locks, &format!("{major:02x}:{minor:02x}:{}", lock.ino()))
}

/// Finds the process in the kernel's list. Processes of other name spaces are not in it, or 0.
fn holder_in(locks: &str, file: &str) -> Option<u32> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        // Those who wait have an arrow here.
        let is_held = words.next()? == "FLOCK";
        let process = words.nth(2)?.parse().ok()?;
        (is_held && words.next()? == file && process != 0).then_some(process)
    };
    locks.lines().find_map(of_line)
}

fn words_of(process: u32) -> Option<String> {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let words = line.split(|b| *b == 0).map(<[u8]>::to_vec);
    words_shown(&words.map(OsString::from_vec).collect::<Vec<_>>())
}

/// Returns a command line without programs of the user and without what concerns passwords. Of
/// other programs only the name.
pub fn words_shown(line: &[OsString]) -> Option<String> {
    let (program, arguments) = line.split_first()?;
    let program = Path::new(program).file_name()?.as_bytes();
    let mut shown = printable(program);
    let mut is_hidden = program != b"quintet";
    if is_hidden {
        return Some(shown);
    }
    for word in arguments {
        let word = printable(word.as_bytes());
        if is_hidden {
            shown.push_str(" ...");
            is_hidden = false;
            continue;
        }
        if word == "--" || word == "--stdin-from-command" {
            shown.push_str(&format!(" {word} ..."));
            break;
        }
        let (name, value) = word.split_once('=').unwrap_or((&word, ""));
        let is_secret = name.starts_with("--")
            && ["password", "command", "key", "secret"]
                .iter()
                .any(|part| name.contains(part));
        match is_secret && !value.is_empty() {
            true => shown.push_str(&format!(" {name}=...")),
            false => {
                is_hidden = is_secret && name != "--insecure-no-password";
                shown.push_str(&format!(" {word}"));
            }
        }
    }
    if shown.chars().count() > WORDS_MAX {
        shown = shown.chars().take(WORDS_MAX).collect();
        shown.push_str("...");
    }
    Some(shown)
}

/// Says that a command waits.
pub fn say_waiting(shell: &Shell, writer: &dyn fmt::Display, limit: Duration) {
    shell.console.note(format_args!(
        "waits for {writer}, which writes to this pool, for at most {}",
        in_words(limit)
    ));
    let message = Object::message("status")
        .text("waiting_for", &writer.to_string())
        .integer("seconds_max", limit.as_secs());
    // A closed output ends the command at its results.
    let _ = shell.console.message(message);
}

/// Returns why a command that waited for `limit` has failed. `writer`: unless it is not known.
pub fn still_writing(writer: Option<&dyn fmt::Display>, limit: Duration) -> String {
    let holder_text = writer.map_or(String::new(), |writer| format!("it is {writer}; "));
    match limit.is_zero() {
        true => format!("{holder_text}--wait TIME waits for its end"),
        false => format!(
            "{holder_text}waited {}, --wait TIME waits longer",
            in_words(limit)
        ),
    }
}

/// Formats a time in the largest unit that divides it.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match () {
        () if seconds > 0 && seconds.is_multiple_of(3600) => count(seconds / 3600, "hour"),
        () if seconds > 0 && seconds.is_multiple_of(60) => count(seconds / 60, "minute"),
        () => count(seconds, "second"),
    }
}

/// A wait for other processes that write to a pool.
pub struct Wait<'a> {
    shell: &'a Shell,
    pool: &'a Path,
    limit: Duration,
    /// Time that is left, in whole steps.
    left: Duration,
    /// The process that was named last.
    said: Option<PoolWriter>,
}

impl<'a> Wait<'a> {
    /// Prepares for waiting at most `limit`, counted from the first [`Wait::wait_for_lock`].
    pub fn new(shell: &'a Shell, pool: &'a Path, limit: Duration) -> Self {
        Self {
            shell,
            pool,
            limit,
            left: limit,
            said: None,
        }
    }

    /// Returns true if a pool was not opened because another process has its lock.
    pub fn is_for(error: &StoreError) -> bool {
        // A lost commit has a text or another source.
        let source = error.source.as_ref();
        error.kind == StoreErrorKind::Locked
            && error.message.is_empty()
            && source.is_none_or(|source| source.kind == MediaErrorKind::Locked)
    }

    /// Waits for the lock, which may be taken again when the caller takes it. Then unlocks the pool
    /// again: the other process may have changed its config or keys. Fails with `refused` if the
    /// time is over.
    pub fn wait_for_lock(
        &mut self,
        media: &Media,
        secret: Option<&SecretKey>,
        refused: StoreError,
    ) -> store::Result<Unlocked> {
        if !self.left.is_zero() {
            self.say();
        }
        while !self.left.is_zero() {
            let step = self.left.min(STEP);
            self.left = self.left.saturating_sub(step);
            if self.shell.interrupt.wait(step) {
                return Err(StoreError::new(StoreErrorKind::Interrupted, String::new()));
            }
            match media.disk.lock(LOCK) {
                // Released at once: the keys come first.
                Ok(lock) => {
                    drop(lock);
                    return unlock_again(media, self.pool, secret);
                }
                Err(e) if e.kind == MediaErrorKind::Locked => {}
                Err(e) => return Err(e.into()),
            }
        }
        let writer = PoolWriter::of(self.pool);
        let known: Option<&dyn fmt::Display> = match writer.process {
            Some(_) => Some(&writer),
            None => None,
        };
        Err(StoreError {
            message: still_writing(known, self.limit),
            ..refused
        })
    }

    /// Says for whom this waits, if it did not yet.
    fn say(&mut self) {
        let writer = PoolWriter::of(self.pool);
        if self.said.as_ref() != Some(&writer) {
            let seconds = self.left.as_millis().div_ceil(1000);
            let left = Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX));
            say_waiting(self.shell, &writer, left);
        }
        self.said = Some(writer);
    }
}

/// Unlocks a pool with the secret that has opened it.
pub fn unlock_again(
    media: &Media,
    path: &Path,
    secret: Option<&SecretKey>,
) -> store::Result<Unlocked> {
    let unlocked = Pool::unlock(media, secret)?;
    if secret.is_some() && unlocked.config().seal == Seal::None {
        // Another pool has replaced it since the secret opened it.
        let why = format!(
            "{}: the pool is no longer encrypted; another pool may be in its place",
            path.display()
        );
        return Err(StoreError::new(StoreErrorKind::WrongKey, why));
    }
    Ok(unlocked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_names_the_holder_of_the_lock() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fe:01:42 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 0 fe:01:44 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 1234 fe:01:42 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 99 fe:01:43 0 EOF\n";
        assert_eq!(holder_in(locks, "fe:01:42"), Some(1234));
        assert_eq!(holder_in(locks, "fe:01:43"), None);
        assert_eq!(holder_in(locks, "fe:01:44"), None);
        assert_eq!(holder_in(locks, "fe:01:4"), None);
    }

    #[test]
    fn command_lines_keep_secrets() {
        let shown = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            words_shown(&words).unwrap()
        };
        for (line, expected) in [
            ("/usr/bin/quintet backup /home", "quintet backup /home"),
            (
                "quintet --password-command pass backup /a",
                "quintet --password-command ... backup /a",
            ),
            (
                "quintet copy --to-password-command=x --to /b",
                "quintet copy --to-password-command=... --to /b",
            ),
            (
                "quintet --insecure-no-password gc",
                "quintet --insecure-no-password gc",
            ),
            (
                "quintet backup --stdin-from-command -- mysqldump -psecret",
                "quintet backup --stdin-from-command ...",
            ),
            ("quintet backup -- /a", "quintet backup -- ..."),
            ("/bin/flock /pool/lock secret", "flock"),
        ] {
            assert_eq!(shown(line), expected);
        }
        assert_eq!(words_shown(&[]), None);
        let long = shown(&format!("quintet backup {}", "x".repeat(500)));
        assert_eq!(long.len(), WORDS_MAX + 3);
    }

    #[test]
    fn writers_are_named_as_far_as_they_are_known() {
        let writer = |process, words: Option<&str>| {
            let words = words.map(str::to_owned);
            PoolWriter { process, words }.to_string()
        };
        assert_eq!(
            writer(Some(7), Some("quintet gc")),
            "`quintet gc` (process 7)"
        );
        assert_eq!(writer(Some(7), None), "process 7");
        assert_eq!(writer(None, Some("quintet gc")), "`quintet gc`");
        assert_eq!(writer(None, None), "another process");
    }

    #[test]
    fn a_failure_names_what_is_known_and_the_remedy() {
        let said = still_writing(Some(&"`quintet gc` (process 7)"), Duration::ZERO);
        assert_eq!(
            said,
            "it is `quintet gc` (process 7); --wait TIME waits for its end"
        );
        let said = still_writing(None, Duration::from_secs(60));
        assert_eq!(said, "waited 1 minute, --wait TIME waits longer");
    }

    #[test]
    fn times_have_their_largest_unit() {
        for (seconds, text) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (60, "1 minute"),
            (90, "90 seconds"),
            (7200, "2 hours"),
        ] {
            assert_eq!(in_words(Duration::from_secs(seconds)), text);
        }
    }
}
