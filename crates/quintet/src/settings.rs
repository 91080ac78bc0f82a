//! Checked settings from flags and environment. Commands call this.
//!
//! Invariant: a flag takes precedence over the environment, and that over the configuration file,
//! which says pool, password and memory if nothing else names a pool. An invalid value is refused
//! with its name and never replaced by a default. [`command_line`] parses the command line first.
//! This module checks it second, so commands see no raw text.

mod iscsi_access;

pub use iscsi_access::iscsi_access;

use chunking::Compression;
use command_line::{GlobalArgs, ReplicaArgs, ToArgs, WaitArg};
use server::memory_plan::MEMORY_BYTES_MIN;
use setup::configured;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use terminal::command_context::CommandContext;
use terminal::console::Loudness;
use terminal::environment::{Environment, SettingError};
use terminal::sizes;
use unlocking::{PasswordFlags, PasswordSource, PasswordSources, first_line};

/// Default memory for index, caches and queues, bytes.
pub const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;
/// Default compression of new data.
pub const COMPRESSION_DEFAULT: Compression = Compression::Default;
/// Default time that a command waits for another one that writes to the pool.
pub const WAIT_DEFAULT: Duration = Duration::from_secs(60);
const FPS_MAX: f64 = 60.0;
const HOW_TO_NAME_A_POOL: &str = "give its directory with --repo PATH or QUINTET_REPOSITORY, or in a configuration file, \
     which quintet setup writes";

/// Where the fast tier of a pool is, on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastPlace {
    /// The directory.
    pub directory: PathBuf,
    /// Bytes that the tier may take.
    pub bytes: u64,
}

/// Settings of every command. See the module's head.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The pool's directory, or why there is none.
    pool: Result<PathBuf, String>,
    /// Source of the pool's password.
    pub password: PasswordSource,
    /// The user declares that the pool is not encrypted.
    pub is_unencrypted: bool,
    /// The user accepts that the pools have changed.
    pub accepts_changed: bool,
    /// Time that a command waits for another one that writes to the pool.
    pub wait: Duration,
    /// Memory for index, caches and queues, bytes.
    pub memory_bytes: usize,
    /// Compression of new data.
    pub compression: Compression,
    /// The fast device of this machine, if the environment names one.
    pub fast: Option<FastPlace>,
    /// Rate of progress output, per second, if the user set one.
    pub progress_fps: Option<f64>,
    /// Verbosity and output format.
    pub loudness: Loudness,
}

impl Settings {
    /// Checks flags and environment.
    pub fn new(args: &GlobalArgs, context: &CommandContext) -> Result<Self, SettingError> {
        let environment = &context.environment;
        let pool = pool_location(args, context)?;
        let configured = pool.is_none().then(|| configured_pool(context));
        let (pool, configured) = match (pool, configured) {
            (Some(pool), _) => (Ok(pool), None),
            (None, Some(Ok(pool))) => (Ok(pool.path.value.clone()), Some(pool)),
            (None, Some(Err(why))) => (Err(why), None),
            (None, None) => (Err(HOW_TO_NAME_A_POOL.to_owned()), None),
        };
        let memory_bytes = match args.memory {
            Some(bytes) => ("--memory", bytes),
            None => match environment.text("QUINTET_MEMORY")? {
                Some(text) => {
                    let refuse = |e| SettingError::new("QUINTET_MEMORY", e);
                    ("QUINTET_MEMORY", sizes::parse(&text).map_err(refuse)?)
                }
                None => ("--memory", configured_memory(configured.as_ref())),
            },
        };
        let compression = match environment.text("QUINTET_COMPRESSION")? {
            Some(text) => {
                parse_compression(&text).map_err(|e| SettingError::new("QUINTET_COMPRESSION", e))?
            }
            None => COMPRESSION_DEFAULT,
        };
        Ok(Self {
            pool,
            password: password(args, environment, configured.as_ref())?,
            is_unencrypted: args.password.insecure_no_password,
            accepts_changed: args.accept_changed_pool,
            wait: args.wait.map_or(WAIT_DEFAULT, WaitArg::time),
            memory_bytes: checked_memory(memory_bytes)?,
            compression,
            fast: fast_place(environment)?,
            progress_fps: progress_fps(environment)?,
            loudness: Loudness {
                json: args.json,
                quiet: args.quiet,
                verbose: args.verbose,
            },
        })
    }

    /// Returns the pool's directory. Fails if the user gave none.
    pub fn pool(&self) -> Result<&Path, SettingError> {
        let pool = self.pool.as_deref();
        pool.map_err(|why| SettingError::new("no pool given", why))
    }
}

/// Returns the pool of the configuration file, or why there is none.
fn configured_pool(context: &CommandContext) -> Result<configuration::PoolSection, String> {
    let read = configured::configuration(context, None);
    read.map(|read| read.pool)
        .map_err(|why| format!("{HOW_TO_NAME_A_POOL} ({why})"))
}

fn configured_memory(pool: Option<&configuration::PoolSection>) -> u64 {
    let memory = pool.and_then(|pool| pool.memory.as_deref());
    // It was parsed with the file.
    let memory = memory.and_then(|text| sizes::parse(text).ok());
    memory.unwrap_or(MEMORY_BYTES_DEFAULT)
}

/// Returns the source of the password: options, else the environment, else the configuration file.
fn password(
    args: &GlobalArgs,
    environment: &Environment,
    configured: Option<&configuration::PoolSection>,
) -> Result<PasswordSource, SettingError> {
    let open = PasswordSources::OPEN;
    let chosen = PasswordSource::choose(open, (&args.password).into(), environment)?;
    match (chosen, configured) {
        (PasswordSource::Terminal, Some(pool)) if !args.password.insecure_no_password => {
            let flags = PasswordFlags {
                file: pool.password.file.as_ref().map(|file| &file.value),
                command: pool.password.command.as_ref().map(|c| c.value.as_str()),
                ..PasswordFlags::default()
            };
            PasswordSource::choose(open, flags, &Environment::default())
        }
        (chosen, _) => Ok(chosen),
    }
}

/// Returns the pool that the environment names, if the password is from the environment too and an
/// option names `pool`, another one. A variable that is of no use to the command is no error.
pub fn password_of(args: &GlobalArgs, context: &CommandContext, pool: &Path) -> Option<PathBuf> {
    let is_named = args.repo.is_some() || args.repository_file.is_some();
    let flags = &args.password;
    let has_flag = flags.password_file.is_some()
        || flags.password_command.is_some()
        || flags.key_file.is_some();
    if !is_named || has_flag {
        return None;
    }
    let none = PasswordFlags::default();
    let chosen = PasswordSource::choose(PasswordSources::OPEN, none, &context.environment).ok()?;
    let other = pool_location(&GlobalArgs::default(), context).ok()??;
    (chosen != PasswordSource::Terminal && other != pool).then_some(other)
}

fn checked_memory((name, bytes): (&str, u64)) -> Result<usize, SettingError> {
    if bytes < MEMORY_BYTES_MIN {
        let least = sizes::display(MEMORY_BYTES_MIN);
        let why = format!(
            "{} is too little; give at least {least}",
            sizes::display(bytes)
        );
        return Err(SettingError::new(name, why));
    }
    usize::try_from(bytes)
        .map_err(|_| SettingError::new(name, "it is more than this machine can address"))
}

fn pool_location(
    args: &GlobalArgs,
    context: &CommandContext,
) -> Result<Option<PathBuf>, SettingError> {
    let environment = &context.environment;
    let (name, location) = if let Some(location) = &args.repo {
        ("--repo", location.clone().into_os_string())
    } else if let Some(file) = &args.repository_file {
        let location = first_line("--repository-file", file, context)?;
        ("--repository-file", location)
    } else {
        let direct = environment.value("QUINTET_REPOSITORY");
        let file = environment.value("QUINTET_REPOSITORY_FILE");
        match (direct, file) {
            (Some(_), Some(_)) => {
                let why = "QUINTET_REPOSITORY is set too; unset one of them";
                return Err(SettingError::new("QUINTET_REPOSITORY_FILE", why));
            }
            (Some(location), None) => ("QUINTET_REPOSITORY", location.to_owned()),
            (None, Some(file)) => {
                let name = "QUINTET_REPOSITORY_FILE";
                (name, first_line(name, Path::new(file), context)?)
            }
            (None, None) => return Ok(None),
        }
    };
    local_path(&location)
        .map(Some)
        .map_err(|why| SettingError::new(name, why))
}

/// A pool other than the one that a command works on.
#[derive(Clone, Debug)]
pub struct OtherPool {
    /// Its directory.
    pub path: PathBuf,
    /// Source of its password.
    pub password: PasswordSource,
    /// The user declares that it is not encrypted.
    pub is_unencrypted: bool,
    /// Names of its password sources, for prompts and messages.
    pub sources: PasswordSources,
}

impl OtherPool {
    /// Uses the directory that the flag or variable `name` gives, and the password from these flags
    /// or the environment.
    fn new(
        (name, location): (&str, &OsStr),
        sources: PasswordSources,
        flags: PasswordFlags<'_>,
        environment: &Environment,
    ) -> Result<Self, SettingError> {
        Ok(Self {
            path: local_path(location).map_err(|why| SettingError::new(name, why))?,
            is_unencrypted: flags.is_unencrypted,
            password: PasswordSource::choose(sources, flags, environment)?,
            sources,
        })
    }

    /// Returns true if it is this directory, however the path is written.
    pub fn is_at(&self, path: &Path) -> bool {
        matches!((self.path.canonicalize(), path.canonicalize()), (Ok(a), Ok(b)) if a == b)
    }
}

/// Returns the replica, if the user gave one.
pub fn replica(
    args: &ReplicaArgs,
    environment: &Environment,
) -> Result<Option<OtherPool>, SettingError> {
    let sources = PasswordSources::REPLICA;
    let at = args.replica.as_ref().map(|path| {
        let location = ("--replica", path.as_os_str());
        OtherPool::new(location, sources, (&args.password).into(), environment)
    });
    at.transpose()
}

/// Returns the pool that receives copies.
pub fn receiving_pool(args: &ToArgs, environment: &Environment) -> Result<OtherPool, SettingError> {
    const NAME: &str = "QUINTET_TO_REPOSITORY";
    let location = match (&args.to, environment.value(NAME)) {
        (Some(to), _) => ("--to", to.as_os_str()),
        (None, Some(to)) => (NAME, to),
        (None, None) => {
            let why = "give its directory with --to PATH or QUINTET_TO_REPOSITORY";
            return Err(SettingError::new("no receiving pool given", why));
        }
    };
    let flags = (&args.password).into();
    OtherPool::new(location, PasswordSources::TO, flags, environment)
}

/// Parses a directory, also written `local:PATH`. What looks like another machine or a URL is
/// refused: a directory called `host:` or `s3:bucket` would be a misunderstanding.
fn local_path(location: &OsStr) -> Result<PathBuf, String> {
    let bytes = location.as_bytes();
    if let Some(path) = bytes.strip_prefix(b"local:") {
        return local_path_given(path);
    }
    // As rsync and scp tell them apart: a colon before the first slash.
    let colon = bytes.iter().position(|b| *b == b':' || *b == b'/');
    match colon.filter(|at| bytes.get(*at) == Some(&b':')) {
        Some(at) => Err(remote_refusal(bytes.get(..at).unwrap_or_default())),
        None => local_path_given(bytes),
    }
}

/// Returns why a location is refused. `before`: what is before its colon.
fn remote_refusal(before: &[u8]) -> String {
    let before = String::from_utf8_lossy(before);
    let remedy = match &*before {
        "smb" | "cifs" | "nfs" => "mount the share, and give the directory where it is mounted",
        "file" => "write its path alone",
        "s3" | "b2" | "azure" | "gs" | "swift" | "rest" | "http" | "https" | "rclone" => {
            "give a directory of a disk or of a mounted file system"
        }
        _ => {
            "mount the other machine's directory (NFS, sshfs) and give that, or run quintet on that \
             machine"
        }
    };
    format!(
        "a pool is a directory of this machine, not {before}:...; {remedy} (write ./{before}:... for a \
         directory with that name)"
    )
}

/// Returns the fast device that the environment names.
fn fast_place(environment: &Environment) -> Result<Option<FastPlace>, SettingError> {
    let size = environment.text("QUINTET_FAST_SIZE")?;
    match (environment.value("QUINTET_FAST"), size) {
        (None, None) => Ok(None),
        (Some(directory), Some(size)) => Ok(Some(FastPlace {
            directory: PathBuf::from(directory),
            bytes: sizes::parse(&size).map_err(|e| SettingError::new("QUINTET_FAST_SIZE", e))?,
        })),
        (Some(_), None) => Err(SettingError::new(
            "QUINTET_FAST_SIZE",
            "it is missing, and QUINTET_FAST is set; set both: a directory, and the bytes that the tier may take",
        )),
        (None, Some(_)) => Err(SettingError::new(
            "QUINTET_FAST",
            "it is missing, and QUINTET_FAST_SIZE is set; set both",
        )),
    }
}

fn local_path_given(path: &[u8]) -> Result<PathBuf, String> {
    if path.is_empty() {
        return Err("the path is empty".to_owned());
    }
    if path.contains(&0) {
        return Err("the path contains a NUL byte".to_owned());
    }
    Ok(PathBuf::from(OsStr::from_bytes(path)))
}

fn progress_fps(environment: &Environment) -> Result<Option<f64>, SettingError> {
    const NAME: &str = "QUINTET_PROGRESS_FPS";
    let Some(text) = environment.text(NAME)? else {
        return Ok(None);
    };
    match text.trim().parse::<f64>() {
        Ok(fps) if fps > 0.0 && fps <= FPS_MAX => Ok(Some(fps)),
        _ => {
            let why = format!("{text:?} is not a rate above 0 and up to {FPS_MAX} per second");
            Err(SettingError::new(NAME, why))
        }
    }
}

/// Parses `none`, `lz4`, `zstd` or `zstd:LEVEL` (-7 to 19), and restic's `auto` and `max`.
pub fn parse_compression(text: &str) -> Result<Compression, String> {
    let refuse =
        || format!("{text:?} is not a compression (examples: zstd, zstd:3, lz4, none, auto, max)");
    match text {
        "none" | "off" => Ok(Compression::None),
        "lz4" => Ok(Compression::Lz4),
        "zstd" | "auto" => Ok(COMPRESSION_DEFAULT),
        "max" => Ok(Compression::Zstd(15)),
        other => match other
            .strip_prefix("zstd:")
            .or(other.strip_prefix("zstd,"))
            .map(str::parse)
        {
            Some(Ok(level)) if (-7..=19).contains(&level) && level != 0 => {
                Ok(Compression::Zstd(level))
            }
            _ => Err(refuse()),
        },
    }
}

#[cfg(test)]
mod tests;
