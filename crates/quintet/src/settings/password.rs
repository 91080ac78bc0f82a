//! Where the password, or the recovery key, comes from.
//!
//! Invariant: one source; two are refused, because a wrong guess costs a second and a wrong pool.
//! Nothing is read before a pool needs it. Secrets are never printed and never kept in settings,
//! but for the one in `QUINTET_PASSWORD`.

use super::SettingError;
use super::environment::{self, Environment};
use super::recovery_key::RecoveryKey;
use super::terminal;
use crate::caller::Caller;
use crate::cli::PasswordArgs;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use store::SecretKey;

/// A way to a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum PasswordSource {
    /// From the environment.
    Given(Vec<u8>),
    /// First line of a file.
    File(PathBuf),
    /// First line that a program prints.
    Command(Vec<OsString>),
    /// First line from an open file descriptor.
    Descriptor(u32),
    /// A file that `init --recovery-key-file` or `key recovery` wrote.
    RecoveryKeyFile(PathBuf),
    /// Asked on the terminal.
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

/// Why there is no password.
#[derive(Debug)]
pub enum PasswordError {
    /// The source is set but does not work.
    Setting(SettingError),
    /// No source is set and there is no terminal to ask on.
    NoSource,
    /// Typed twice, differently.
    Differ,
    /// Empty passwords protect nothing.
    Empty,
    /// The user stopped.
    Interrupted,
    /// The terminal failed.
    Terminal(io::Error),
}

impl fmt::Display for PasswordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(e) => e.fmt(f),
            Self::NoSource => f.write_str(
                "no password: set QUINTET_PASSWORD_FILE, QUINTET_PASSWORD_COMMAND or \
                 QUINTET_PASSWORD, or run on a terminal",
            ),
            Self::Differ => f.write_str("the two passwords differ"),
            Self::Empty => f.write_str("the password is empty"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Terminal(e) => write!(f, "terminal: {e}"),
        }
    }
}

impl std::error::Error for PasswordError {}

impl From<SettingError> for PasswordError {
    fn from(e: SettingError) -> Self {
        Self::Setting(e)
    }
}

/// Names of a family of sources: for opening, and for a new password.
#[derive(Clone, Copy, Debug)]
pub struct PasswordSources {
    prompt: &'static str,
    /// How flags begin, of a pool that is not the caller's own.
    flag: &'static str,
    /// The variable that may hold it.
    variable: &'static str,
    /// What the pool is called.
    pool: &'static str,
}

impl PasswordSources {
    /// The one that opens the pool.
    pub const OPEN: Self = Self {
        prompt: "Password of the pool",
        flag: "-",
        variable: "QUINTET_PASSWORD",
        pool: "",
    };
    /// The one that opens the pool that receives copies.
    pub const TO: Self = Self {
        prompt: "Password of the receiving pool",
        flag: "--to",
        variable: "QUINTET_TO_PASSWORD",
        pool: "the receiving pool",
    };
    /// The one that opens a replica.
    pub const REPLICA: Self = Self {
        prompt: "Password of the replica",
        flag: "--replica",
        variable: "QUINTET_REPLICA_PASSWORD",
        pool: "the replica",
    };
    /// One that is set.
    pub const NEW: Self = Self {
        prompt: "New password",
        ..Self::OPEN
    };
}

impl PasswordSource {
    /// From flags, else from the environment, else the terminal.
    pub fn choose(args: &PasswordArgs, environment: &Environment) -> Result<Self, SettingError> {
        let flags = [
            ("--password-file", args.password_file.clone()),
            ("--key-file", args.key_file.clone()),
        ];
        let command = ("--password-command", args.password_command.as_deref());
        let variables = [
            "QUINTET_PASSWORD",
            "QUINTET_PASSWORD_FILE",
            "QUINTET_PASSWORD_COMMAND",
            "QUINTET_PASSPHRASE_FD",
        ];
        Self::choose_among(flags, command, variables, environment)
    }

    /// The same for another pool: from a file, a program or a recovery key that flags name.
    pub fn choose_other(
        sources: PasswordSources,
        file: Option<&PathBuf>,
        command: Option<&str>,
        key_file: Option<&PathBuf>,
        environment: &Environment,
    ) -> Result<Self, SettingError> {
        let PasswordSources { flag, variable, .. } = sources;
        let names = ["file", "command"].map(|what| format!("{flag}-password-{what}"));
        let [file_name, command_name] = &names;
        let key_file_name = format!("{flag}-key-file");
        let flags = [
            (file_name.as_str(), file.cloned()),
            (key_file_name.as_str(), key_file.cloned()),
        ];
        let variables = ["_FILE", "_COMMAND"].map(|what| format!("{variable}{what}"));
        let [file_variable, command_variable] = &variables;
        // A server is lent one open file only.
        let variables = [variable, file_variable, command_variable, ""];
        Self::choose_among(flags, (command_name, command), variables, environment)
    }

    fn choose_among(
        [file, key_file]: [(&str, Option<PathBuf>); 2],
        command: (&str, Option<&str>),
        variables: [&str; 4],
        environment: &Environment,
    ) -> Result<Self, SettingError> {
        let flags = [
            file.1.map(Self::File),
            command
                .1
                .map(|text| split_command(command.0, text.as_bytes()))
                .transpose()?,
            key_file.1.map(Self::RecoveryKeyFile),
        ];
        let from_flags = only_one([file.0, command.0, key_file.0], flags)?;
        if let Some(source) = from_flags {
            return Ok(source);
        }
        let [given, file, command, descriptor] = variables;
        let value = |name| environment.value(name);
        let from_environment = only_one(
            variables,
            [
                value(given).map(|v| Self::Given(v.as_bytes().to_vec())),
                value(file).map(|v| Self::File(v.into())),
                value(command)
                    .map(|v| split_command(command, v.as_bytes()))
                    .transpose()?,
                environment
                    .text(descriptor)?
                    .map(|text| match text.trim().parse() {
                        Ok(number) => Ok(Self::Descriptor(number)),
                        Err(_) => {
                            let why = format!("{text:?} is not the number of an open file");
                            Err(SettingError::new(descriptor, why))
                        }
                    })
                    .transpose()?,
            ],
        )?;
        Ok(from_environment.unwrap_or(Self::Terminal))
    }

    /// Number of the open file that holds it, if that is the way.
    pub fn descriptor(&self) -> Option<u32> {
        match self {
            Self::Descriptor(number) => Some(*number),
            _ => None,
        }
    }

    /// The secret that opens a pool.
    pub fn read(&self, caller: &Caller) -> Result<SecretKey, PasswordError> {
        self.read_as(PasswordSources::OPEN, false, caller)
    }

    /// The secret that opens another pool.
    pub fn read_of(
        &self,
        sources: PasswordSources,
        caller: &Caller,
    ) -> Result<SecretKey, PasswordError> {
        self.read_as(sources, false, caller).map_err(|e| match e {
            PasswordError::NoSource => {
                let name = sources.variable;
                let why = format!(
                    "no password: set {name}_FILE, {name}_COMMAND or {name}, or run on a terminal"
                );
                SettingError::new(sources.pool, why).into()
            }
            other => other,
        })
    }

    /// A secret that is about to be set: on a terminal, typed twice.
    pub fn read_new(&self, caller: &Caller) -> Result<SecretKey, PasswordError> {
        self.read_as(PasswordSources::NEW, true, caller)
    }

    fn read_as(
        &self,
        names: PasswordSources,
        new: bool,
        caller: &Caller,
    ) -> Result<SecretKey, PasswordError> {
        let password = match self {
            Self::Given(password) => password.clone(),
            Self::File(path) => environment::first_line("password file", path)?.into_vec(),
            Self::Command(words) => run(words, caller)?,
            Self::Descriptor(number) => {
                let file = caller.passphrase(*number);
                let name = "QUINTET_PASSPHRASE_FD";
                environment::first_line_of(name, number, file)?.into_vec()
            }
            Self::RecoveryKeyFile(path) => {
                let key = RecoveryKey::read(path)?;
                return Ok(SecretKey::Recovery(key.0));
            }
            Self::Terminal => {
                let password = terminal::ask(names.prompt, caller)?;
                if new && terminal::ask("The same again", caller)? != password {
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

fn only_one<const N: usize>(
    names: [&str; N],
    sources: [Option<PasswordSource>; N],
) -> Result<Option<PasswordSource>, SettingError> {
    let mut chosen: Option<(&str, PasswordSource)> = None;
    for (name, source) in names.into_iter().zip(sources) {
        let Some(source) = source else { continue };
        if let Some((other, _)) = chosen {
            return Err(SettingError::new(
                name,
                format!("{other} is set too: which one?"),
            ));
        }
        chosen = Some((name, source));
    }
    Ok(chosen.map(|(_, source)| source))
}

/// Runs a program, without a shell, and takes the first line that it prints.
fn run(words: &[OsString], caller: &Caller) -> Result<Vec<u8>, SettingError> {
    let refuse = |why: String| SettingError::new("password command", why);
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| refuse("is empty".into()))?;
    let output = caller
        .program(program)
        .and_then(|mut command| command.args(arguments).output())
        .map_err(|e| refuse(format!("{}: {e}", program.display())))?;
    if !output.status.success() {
        return Err(refuse(format!("{}: {}", program.display(), output.status)));
    }
    let line = output.stdout.split(|b| *b == b'\n').next();
    let line = line.unwrap_or_default();
    Ok(line.strip_suffix(b"\r").unwrap_or(line).to_vec())
}

/// Words as a shell splits them: quotes and backslashes, nothing else.
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
                    .ok_or_else(|| SettingError::new(name, "ends with a backslash"))?;
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
        return Err(SettingError::new(name, "a quote without its end"));
    }
    words.extend(word);
    match words.is_empty() {
        true => Err(SettingError::new(name, "is empty")),
        false => Ok(PasswordSource::Command(
            words.into_iter().map(OsString::from_vec).collect(),
        )),
    }
}
