//! Unlocks a pool: where the secret comes from, which pool a machine remembers, and whether it is
//! still that pool. The program calls this.
//!
//! Invariant: a user who gave a secret, or whose machine remembers the pool as encrypted, gets no
//! pool without encryption, unless the user asks for that. A different pool, or an older state than
//! this machine remembers, is reported before anything is stored or restored, in each run until the
//! user accepts it.
#![forbid(unsafe_code)]

mod cache_file;
mod first_line;
mod known_pools;
mod password;
mod recovery_key;
mod terminal;
pub mod writer;

pub use cache_file::CacheFile;
pub use first_line::first_line;
use known_pools::KnownPlace;
pub use password::{PasswordError, PasswordFlags, PasswordSource, PasswordSources, exposed_secret};
pub use recovery_key::RecoveryKey;

use ::terminal::command_context::CommandContext;
use ::terminal::environment::{Environment, SettingError};
use ::terminal::interrupt::{Interrupt, Interrupted};
use format::config::Seal;
use format::known::KnownPool;
use media::Media;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use store::{Pool, SecretKey, StoreError, StoreErrorKind, Unlocked};
use units::{Generation, PoolId, UnixNanos};

/// Time between two checks for a stop request during the key derivation.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A pool that is not unlocked yet.
pub struct LockedPool<'a> {
    /// Its directory.
    pub path: &'a Path,
    /// Source of its secret.
    pub password: &'a PasswordSource,
    /// Names of that source's family, for prompts and messages.
    pub sources: PasswordSources,
    /// The user declares that the pool is not encrypted.
    pub is_unencrypted: bool,
    /// The user accepts that the pool has changed.
    pub accepts_changed: bool,
}

/// An unlocked pool, its secret, and what was remembered of it.
pub struct Opening {
    /// The pool's config and key.
    pub unlocked: Unlocked,
    /// The secret; `None` if the pool is not encrypted.
    pub secret: Option<SecretKey>,
    /// The memory of this visit.
    pub known_writer: KnownPoolWriter,
}

/// Receives warnings, one line each.
pub type Warn<'a> = dyn Fn(&dyn fmt::Display) + 'a;

/// A pool that this run uses, to be remembered at the end.
pub struct KnownPoolWriter {
    place: KnownPlace,
    before: Option<KnownPool>,
    accepts_changed: bool,
    pool: PoolId,
    seal: Seal,
    generation: Option<Arc<AtomicU64>>,
}

impl LockedPool<'_> {
    /// Finds the key. Asks for a secret only if the pool is encrypted.
    pub fn unlock(
        &self,
        media: &Media,
        context: &CommandContext,
        environment: &Environment,
        warn: &Warn<'_>,
    ) -> anyhow::Result<Opening> {
        let place = KnownPlace::of(self.path, environment)?;
        // Read the memory before the pool: otherwise a commit of another process in between would
        // look like an older state.
        let before = place.recall();
        let (unlocked, secret) = match Pool::unlock(media, None) {
            Ok(unlocked) => {
                self.refuse_clear(before.as_ref())?;
                (unlocked, None)
            }
            Err(e) if e.kind == StoreErrorKind::WrongKey && self.is_unencrypted => {
                let flag = self.sources.unencrypted_flag();
                let why = format!("{}: the pool is encrypted; remove {flag}", self.name());
                return Err(StoreError::new(StoreErrorKind::WrongKey, why).into());
            }
            Err(e) if e.kind == StoreErrorKind::WrongKey => {
                if let Some(warning) = exposed_secret(self.password, environment) {
                    warn(&warning);
                }
                let secret = self.password.read_of(self.sources, context)?;
                let unlocked = stretched(media, &secret, &context.interrupt)?;
                (unlocked, Some(secret))
            }
            Err(e) => return Err(e.into()),
        };
        let config = unlocked.config();
        let known_writer = KnownPoolWriter {
            place,
            before,
            accepts_changed: self.accepts_changed,
            pool: config.pool,
            seal: config.seal,
            generation: None,
        };
        Ok(Opening {
            unlocked,
            secret,
            known_writer,
        })
    }

    fn name(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Refuses a pool without encryption to a user who expects an encrypted one.
    pub fn refuse_clear(&self, before: Option<&KnownPool>) -> Result<(), StoreError> {
        if self.is_unencrypted {
            return Ok(());
        }
        let was_sealed = before.is_some_and(|known| known.seal != Seal::None);
        let why = match self.password {
            PasswordSource::Terminal if !was_sealed || self.accepts_changed => return Ok(()),
            PasswordSource::Terminal => "it was encrypted when this machine last saw it",
            _ => "a password or key was given for it",
        };
        let flag = self.sources.unencrypted_flag();
        let why = format!(
            "{}: the pool is not encrypted, and {why}. Someone may have replaced the pool. Nothing was \
             read or stored. If this is intended, give {flag}",
            self.name()
        );
        Err(StoreError::new(StoreErrorKind::WrongKey, why))
    }
}

/// Derives the key on a thread, because that takes long and cannot be stopped. A user who
/// interrupts does not wait. The thread changes nothing and ends with the process.
fn stretched(media: &Media, secret: &SecretKey, interrupt: &Interrupt) -> anyhow::Result<Unlocked> {
    let (sender, receiver) = sync_channel(1);
    let (media, secret) = (media.clone(), secret.clone());
    std::thread::Builder::new()
        .name("unlock".to_owned())
        .spawn(move || drop(sender.send(Pool::unlock(&media, Some(&secret)))))?;
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(unlocked) => return Ok(unlocked?),
            Err(RecvTimeoutError::Timeout) => interrupt.check()?,
            Err(RecvTimeoutError::Disconnected) => return Err(Interrupted.into()),
        }
    }
}

impl KnownPoolWriter {
    /// Warns about changes since the pool was remembered. Follows the pool's commits from now on.
    pub fn entered(&mut self, pool: &Pool, path: &Path, warn: &Warn<'_>) {
        self.generation = Some(pool.generation_cell());
        let Some(before) = self.before.as_ref().filter(|_| !self.accepts_changed) else {
            return;
        };
        let path = path.display();
        let accept = "If this is intended, give --accept-changed-pool once";
        if before.pool != self.pool {
            warn(&format_args!(
                "{path}: this is another pool than this machine saw here before ({} now, {} before). \
                 {accept}",
                self.pool, before.pool
            ));
        } else if before.generation > pool.generation() {
            warn(&format_args!(
                "{path}: the pool is at commit {}, and this machine has seen commit {}. The pool was set \
                 back to an older state, or its newest commits are lost. {accept}",
                pool.generation(),
                before.generation
            ));
        }
        if before.seal != self.seal {
            let now = match self.seal {
                Seal::None => "is no longer encrypted",
                Seal::Aes256Gcm => "is encrypted now",
            };
            warn(&format_args!("{path}: the pool {now}. {accept}"));
        }
    }

    /// Remembers the pool's newest commit. A change that the user has not accepted is not
    /// remembered, so the next run warns again.
    pub fn remember(&self, now: UnixNanos) {
        let Some(generation) = &self.generation else {
            return;
        };
        let is_same = |before: &KnownPool| before.pool == self.pool && before.seal == self.seal;
        if self.accepts_changed || self.before.as_ref().is_none_or(is_same) {
            let known = KnownPool {
                pool: self.pool,
                generation: Generation(generation.load(Ordering::Relaxed)),
                seen: now,
                seal: self.seal,
                place: Vec::new(),
            };
            self.place.remember(known, self.accepts_changed);
        }
    }
}

/// Remembers a pool that was just made, whatever was there before.
pub fn remember_new(
    path: &Path,
    pool: &Pool,
    environment: &Environment,
) -> Result<(), SettingError> {
    let place = KnownPlace::of(path, environment)?;
    let known = KnownPool {
        pool: pool.config().pool,
        generation: pool.generation(),
        seen: pool.now(),
        seal: pool.config().seal,
        place: Vec::new(),
    };
    place.remember(known, true);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::terminal::environment::Environment;
    use format::key_slot::{KeyDerivation, KeySlot};
    use media::{Blobs, MediaError, Put, Syncing};
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use store::{InitOptions, NewSecret, OpenMode};

    fn media_at(path: &Path) -> Media {
        Media::local(path, Syncing::Inline)
    }

    /// Adds a slot with the highest accepted cost of derivation: an attacker can do that without a
    /// key.
    fn forge_slot(pool: &Path) {
        let keys = pool.join("keys");
        let known = std::fs::read_dir(&keys).unwrap().next().unwrap().unwrap();
        let bytes = std::fs::read(known.path()).unwrap();
        let (mut slot, _) = KeySlot::decode(&bytes).unwrap();
        slot.id = [7; 8];
        slot.derivation = KeyDerivation::Argon2id {
            memory_kib: 1 << 20,
            passes: 10,
            lanes: 1,
        };
        std::fs::write(keys.join("07".repeat(8)), slot.encode()).unwrap();
    }

    #[test]
    fn a_stop_does_not_wait_for_a_forged_slot() {
        let dir = tempfile::tempdir().unwrap();
        let media = media_at(dir.path());
        let secret = SecretKey::Password(b"correct horse".to_vec());
        let new = NewSecret {
            secret: &secret,
            label: "",
        };
        let options = InitOptions {
            secrets: &[new],
            chunk_bytes_average: 32 << 10,
            parity_percent: 0,
        };
        Pool::init(&media, &options).unwrap();
        forge_slot(dir.path());
        // The true slot is cheaper, so it opens first.
        let unlocked = stretched(&media, &secret, &Interrupt::detached()).unwrap();
        Pool::open_unlocked(media.clone(), unlocked, OpenMode::Read, 32 << 20).unwrap();
        let (reached, is_reached) = channel();
        let (open, opens) = channel();
        let stuck = Media {
            blobs: Arc::new(Stuck {
                inner: Arc::clone(&media.blobs),
                reached: Mutex::new(reached),
                opens: Mutex::new(opens),
            }),
            ..media
        };
        let interrupt = Interrupt::detached();
        let stop = interrupt.clone();
        let stopping = std::thread::spawn(move || {
            let is_reached = is_reached.recv_timeout(Duration::from_secs(60));
            stop.request();
            is_reached.expect("the forged slot is looked at");
        });
        let wrong = SecretKey::Password(b"battery staple".to_vec());
        let stopped = stretched(&stuck, &wrong, &interrupt)
            .err()
            .expect("stopped");
        assert!(stopped.is::<Interrupted>(), "{stopped:#}");
        stopping.join().unwrap();
        // Only now may the thread go on.
        drop(open);
    }

    /// Blobs in which a reader of the forged slot waits, until a test lets it go on.
    struct Stuck {
        inner: Arc<dyn Blobs>,
        reached: Mutex<Sender<()>>,
        opens: Mutex<Receiver<()>>,
    }

    impl Blobs for Stuck {
        fn read_range(&self, name: &str, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
            if name.ends_with(&"07".repeat(8)) {
                let _ = self.reached.lock().unwrap().send(());
                let minute = Duration::from_secs(60);
                let _ = self.opens.lock().unwrap().recv_timeout(minute);
                // The thread ends soon: nobody needs its key.
                return self.inner.read_range("nothing", offset, into);
            }
            self.inner.read_range(name, offset, into)
        }

        fn put(&self, name: &str, bytes: Vec<u8>, how: Put) -> Result<(), MediaError> {
            self.inner.put(name, bytes, how)
        }

        fn len(&self, name: &str) -> Result<u64, MediaError> {
            self.inner.len(name)
        }

        fn list(&self, prefix: &str) -> Result<Vec<String>, MediaError> {
            self.inner.list(prefix)
        }

        fn delete(&self, name: &str) -> Result<(), MediaError> {
            self.inner.delete(name)
        }

        fn sweep(&self) -> Result<(), MediaError> {
            self.inner.sweep()
        }

        fn adopt(&self, name: &str) {
            self.inner.adopt(name);
        }

        fn barrier(&self, point: media::Barrier) -> Result<(), MediaError> {
            self.inner.barrier(point)
        }
    }

    fn door<'a>(password: &'a PasswordSource, is_unencrypted: bool) -> LockedPool<'a> {
        LockedPool {
            path: Path::new("/srv/pool"),
            password,
            sources: PasswordSources::OPEN,
            is_unencrypted,
            accepts_changed: false,
        }
    }

    #[test]
    fn a_pool_that_is_not_encrypted_needs_the_users_consent() {
        let known = |seal| KnownPool {
            pool: PoolId([1; 16]),
            generation: Generation(4),
            seen: UnixNanos(0),
            seal,
            place: Vec::new(),
        };
        let (sealed, clear) = (known(Seal::Aes256Gcm), known(Seal::None));
        let given = PasswordSource::Given(b"x".to_vec());
        let asked = PasswordSource::Terminal;
        for (password, flag, before, is_refused) in [
            (&given, false, None, true),
            (&given, false, Some(&clear), true),
            (&given, true, Some(&sealed), false),
            (&asked, false, None, false),
            (&asked, false, Some(&clear), false),
            (&asked, false, Some(&sealed), true),
            (&asked, true, Some(&sealed), false),
        ] {
            let found = door(password, flag).refuse_clear(before);
            let refused = found.err().map(|e| e.kind);
            let expected = is_refused.then_some(StoreErrorKind::WrongKey);
            assert_eq!(refused, expected, "{password:?} {flag} {before:?}");
        }
    }

    #[test]
    fn a_secret_that_others_can_read_is_warned_of() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "x").unwrap();
        let warned = |mode, environment: &Environment| {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            exposed_secret(&PasswordSource::File(path.clone()), environment).is_some()
        };
        let none = Environment::of(&[]);
        let modes = [0o644, 0o640, 0o604, 0o600, 0o400];
        assert_eq!(
            modes.map(|mode| warned(mode, &none)),
            [true, true, true, false, false]
        );
        let of_service = [("CREDENTIALS_DIRECTORY", dir.path().to_str().unwrap())];
        assert!(!warned(0o440, &Environment::of(&of_service)));
    }
}
