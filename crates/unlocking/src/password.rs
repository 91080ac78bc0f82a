//! Sources of a password or recovery key. Settings choose the source; commands read it.
//!
//! Invariant: there is one source. Two are refused, because a wrong guess costs a second of key
//! derivation and may open the wrong pool. Nothing is read before a pool needs it. Secrets are
//! never printed, and settings do not keep them, except for the value of `QUINTET_PASSWORD`.

use crate::first_line;
use crate::recovery_key::RecoveryKey;
use crate::terminal::{self, TerminalError};
use ::terminal::command_context::{CommandContext, WaitError};
use ::terminal::environment::{Environment, SettingError};
use ::terminal::outside_program::OutsideProgram;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Stdio;
use store::SecretKey;

/// Source of a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum PasswordSource {
    /// The value of a variable.
    Given(Vec<u8>),
    /// First line of a file.
    File(PathBuf),
    /// First line of a program's output.
    Command(Vec<OsString>),
    /// First line from an open file descriptor.
    Descriptor(u32),
    /// A file that `init --recovery-key-file` or `key recovery` wrote.
    RecoveryKeyFile(PathBuf),
    /// A prompt on the terminal.
    Terminal,
}

impl fmt::Debug for PasswordSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("Given(..)"),
            Self::File(path) => write!(f, "File({path:?})"),
            Self::Command(_) => f.write_str("Command(..)"),
            Self::Descriptor(number) => write!(f, "Descriptor({number})"),
            Self::RecoveryKeyFile(path) => write!(f, "RecoveryKeyFile({path:?})"),
            Self::Terminal => f.write_str("Terminal"),
        }
    }
}

/// Reason why there is no password.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// The source is set but does not work.
    #[error("{0}")]
    Setting(SettingError),
    /// No source is set and there is no terminal for a prompt.
    #[error(
        "no password: give --password-file FILE or --password-command COMMAND, set \
         QUINTET_PASSWORD_FILE, QUINTET_PASSWORD_COMMAND or QUINTET_PASSWORD, or run on a terminal"
    )]
    NoSource,
    /// The user typed two different passwords.
    #[error("the two passwords differ")]
    Differ,
    /// The password is empty, which protects nothing.
    #[error("the password is empty")]
    Empty,
    /// The user stopped the prompt.
    #[error("interrupted")]
    Interrupted,
    /// The terminal failed.
    #[error("cannot use the terminal: {}", units::reason(.0))]
    Terminal(io::Error),
}

impl From<TerminalError> for PasswordError {
    fn from(e: TerminalError) -> Self {
        match e {
            TerminalError::Absent => Self::NoSource,
            TerminalError::Interrupted => Self::Interrupted,
            TerminalError::Failed(e) => Self::Terminal(e),
        }
    }
}

impl From<SettingError> for PasswordError {
    fn from(e: SettingError) -> Self {
        match e.is_stop() {
            true => Self::Interrupted,
            false => Self::Setting(e),
        }
    }
}

/// Password flags of one pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct PasswordFlags<'a> {
    /// The file with the password.
    pub file: Option<&'a PathBuf>,
    /// The command that prints the password.
    pub command: Option<&'a str>,
    /// The file with the recovery key.
    pub key_file: Option<&'a PathBuf>,
    /// The user declares that the pool is not encrypted.
    pub is_unencrypted: bool,
}

/// Names of a family of sources: for opening a pool, and for a new password.
#[derive(Clone, Copy, Debug)]
pub struct PasswordSources {
    prompt: &'static str,
    /// Prefix of the flags. More than dashes if the pool is not the command's own.
    flag: &'static str,
    /// The variable that may contain the password, and prefix of further ones.
    variable: &'static str,
    /// The variable that may name an open file. A client can lend a server only one such file.
    descriptor: Option<&'static str>,
    /// Name of the pool in messages.
    pool: &'static str,
}

impl PasswordSources {
    /// Sources of the password that opens the pool.
    pub const OPEN: Self = Self {
        prompt: "Password of the pool",
        flag: "-",
        variable: "QUINTET_PASSWORD",
        descriptor: Some("QUINTET_PASSPHRASE_FD"),
        pool: "",
    };
    /// Sources of the password that opens the pool that receives copies.
    pub const TO: Self = Self {
        prompt: "Password of the receiving pool",
        flag: "--to",
        variable: "QUINTET_TO_PASSWORD",
        descriptor: None,
        pool: "the receiving pool",
    };
    /// Sources of the password that opens a replica.
    pub const REPLICA: Self = Self {
        prompt: "Password of the replica",
        flag: "--replica",
        variable: "QUINTET_REPLICA_PASSWORD",
        descriptor: None,
        pool: "the replica",
    };
    /// Sources of a new password.
    pub const NEW: Self = Self {
        prompt: "New password",
        ..Self::OPEN
    };
}

impl PasswordSources {
    /// Returns the flag that declares that the pool is not encrypted.
    pub fn unencrypted_flag(&self) -> String {
        format!("{}-insecure-no-password", self.flag)
    }
}

/// Returns a warning if other users can read the file of a secret. Credentials of a service are
/// exempt: their access list looks like permissions of a group.
pub fn exposed_secret(source: &PasswordSource, environment: &Environment) -> Option<String> {
    let (PasswordSource::File(path) | PasswordSource::RecoveryKeyFile(path)) = source else {
        return None;
    };
    let credentials = environment.value("CREDENTIALS_DIRECTORY");
    if credentials.is_some_and(|dir| path.starts_with(dir)) {
        return None;
    }
    let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mode = metadata.mode() & 0o777;
    (mode & 0o044 != 0).then(|| {
        let path = path.display();
        format!("other users can read the secret in {path} (mode {mode:04o}); run chmod 600 {path}")
    })
}

impl PasswordSource {
    /// Chooses the source from flags, else the environment, else the terminal.
    pub fn choose(
        sources: PasswordSources,
        flags: PasswordFlags<'_>,
        environment: &Environment,
    ) -> Result<Self, SettingError> {
        let PasswordSources { flag, variable, .. } = sources;
        let names = ["password-file", "password-command", "key-file"];
        let names = names.map(|what| format!("{flag}-{what}"));
        let [file, command, key_file] = names.each_ref().map(String::as_str);
        let command_given = flags
            .command
            .map(|text| split_command(command, text.as_bytes()));
        let from_flags = [
            (file, flags.file.cloned().map(Self::File)),
            (command, command_given.transpose()?),
            (key_file, flags.key_file.cloned().map(Self::RecoveryKeyFile)),
        ];
        if let Some(source) = only_one(from_flags)? {
            return Ok(source);
        }
        let names = ["_FILE", "_COMMAND"].map(|what| format!("{variable}{what}"));
        let [file, command] = names.each_ref().map(String::as_str);
        let value = |name| environment.value(name);
        let command_value = value(command).map(|text| split_command(command, text.as_bytes()));
        let descriptor = match sources.descriptor {
            Some(name) => Self::of_descriptor(name, environment)?,
            None => None,
        };
        let from_environment = [
            (
                variable,
                value(variable).map(|text| Self::Given(text.as_bytes().to_vec())),
            ),
            (file, value(file).map(|path| Self::File(path.into()))),
            (command, command_value.transpose()?),
            (sources.descriptor.unwrap_or_default(), descriptor),
        ];
        Ok(only_one(from_environment)?.unwrap_or(Self::Terminal))
    }

    fn of_descriptor(name: &str, environment: &Environment) -> Result<Option<Self>, SettingError> {
        let number = environment.text(name)?.map(|text| {
            let refuse = |_| {
                let why = format!("{text:?} is not the number of an open file");
                SettingError::new(name, why)
            };
            text.trim().parse().map(Self::Descriptor).map_err(refuse)
        });
        number.transpose()
    }

    /// Returns the number of the open file with the password, if that is the source.
    pub fn descriptor(&self) -> Option<u32> {
        match self {
            Self::Descriptor(number) => Some(*number),
            _ => None,
        }
    }

    /// Reads the secret that opens the pool.
    pub fn read(&self, context: &CommandContext) -> Result<SecretKey, PasswordError> {
        self.read_as(PasswordSources::OPEN, false, context)
    }

    /// Reads the secret that opens another pool.
    pub fn read_of(
        &self,
        sources: PasswordSources,
        context: &CommandContext,
    ) -> Result<SecretKey, PasswordError> {
        self.read_as(sources, false, context).map_err(|e| match e {
            PasswordError::NoSource if !sources.pool.is_empty() => {
                let (flag, name) = (sources.flag, sources.variable);
                let why = format!(
                    "no password: give {flag}-password-file FILE or {flag}-password-command \
                     COMMAND, set {name}_FILE, {name}_COMMAND or {name}, or run on a terminal"
                );
                SettingError::new(sources.pool, why).into()
            }
            other => other,
        })
    }

    /// Reads a new secret. A terminal asks for it twice.
    pub fn read_new(&self, context: &CommandContext) -> Result<SecretKey, PasswordError> {
        self.read_as(PasswordSources::NEW, true, context)
    }

    fn read_as(
        &self,
        names: PasswordSources,
        new: bool,
        context: &CommandContext,
    ) -> Result<SecretKey, PasswordError> {
        let password = match self {
            Self::Given(password) => units::lines::only(password)
                .map_err(|e| SettingError::new(names.variable, e.to_string()))?
                .to_vec(),
            Self::File(path) => first_line::first_line("password file", path, context)?.into_vec(),
            Self::Command(words) => run(words, context)?,
            Self::Descriptor(number) => {
                let file = context.passphrase(*number);
                let name = "QUINTET_PASSPHRASE_FD";
                first_line::first_line_of(name, number, file)?.into_vec()
            }
            Self::RecoveryKeyFile(path) => {
                let key = RecoveryKey::read(path, context)?;
                return Ok(SecretKey::Recovery(key.0));
            }
            Self::Terminal => {
                let password = terminal::ask(names.prompt, context)?;
                if new && terminal::ask("The same password again", context)? != password {
                    return Err(PasswordError::Differ);
                }
                password
            }
        };
        match password.is_empty() {
            true => Err(PasswordError::Empty),
            false => Ok(SecretKey::Password(password)),
        }
    }
}

/// Returns the only source that is set. Fails if there are two.
fn only_one<const N: usize>(
    sources: [(&str, Option<PasswordSource>); N],
) -> Result<Option<PasswordSource>, SettingError> {
    let mut chosen: Option<(&str, PasswordSource)> = None;
    for (name, source) in sources {
        let Some(source) = source else { continue };
        if let Some((other, _)) = chosen {
            return Err(SettingError::new(
                name,
                format!("{other} is set too; unset one of them"),
            ));
        }
        chosen = Some((name, source));
    }
    Ok(chosen.map(|(_, source)| source))
}

/// Runs a program, without a shell, and returns the first line of its output.
fn run(words: &[OsString], context: &CommandContext) -> Result<Vec<u8>, PasswordError> {
    const NAME: &str = "password command";
    let refuse = |why: String| SettingError::new(NAME, why);
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| refuse("it is empty".into()))?;
    let place = program.display().to_string();
    let started = context.program(program).and_then(|mut command| {
        let command = command.args(arguments).stdout(Stdio::piped());
        OutsideProgram::start(context, command, &place, !context.json)
    });
    let mut running =
        started.map_err(|e| refuse(format!("cannot run {place}: {}", units::reason(&e))))?;
    // The output is closed then: a program that writes more than a line does not wait for ever.
    let line = context
        .input_from(&mut running.child)
        .map(|output| first_line::first_line_of(NAME, &place, Ok(output)));
    let ended = running.wait(context).map_err(|e| match e {
        WaitError::Stopped(_) => PasswordError::Interrupted,
        WaitError::Program(_) => refuse(e.to_string()).into(),
    })?;
    ended.success().map_err(|e| refuse(e.to_string()))?;
    let line = line.ok_or_else(|| refuse(format!("{place} has no output")))?;
    Ok(line?.into_vec())
}

/// Splits a command into words, like a shell with quotes and backslashes only.
fn split_command(name: &str, text: &[u8]) -> Result<PasswordSource, SettingError> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote: Option<u8> = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', None | Some(b'"')) => {
                let escaped = bytes
                    .next()
                    .ok_or_else(|| SettingError::new(name, "it ends with a backslash"))?;
                word.get_or_insert_default().push(escaped);
            }
            (byte, Some(open)) if byte == open => quote = None,
            (byte, Some(_)) => word.get_or_insert_default().push(byte),
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (byte, None) if byte.is_ascii_whitespace() => words.extend(word.take()),
            (byte, None) => word.get_or_insert_default().push(byte),
        }
    }
    if quote.is_some() {
        return Err(SettingError::new(name, "a quote is not closed"));
    }
    words.extend(word);
    match words.is_empty() {
        true => Err(SettingError::new(name, "it is empty")),
        false => Ok(PasswordSource::Command(
            words.into_iter().map(OsString::from_vec).collect(),
        )),
    }
}

#[cfg(test)]
mod tests;
