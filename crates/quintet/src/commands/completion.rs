//! Completion of the command line in a shell. A script of [`script`] runs the program with
//! [`ASKS`] set, and [`super::run`] calls [`answer`].
//!
//! Invariant: it asks no question, and runs no program for a password. It waits a second for the
//! pool. Whatever fails, there are fewer words and no message.

use clap::{Arg, Command, CommandFactory, Parser};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use classes::shipped;
use command_line::Cli;
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::Value;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::mpsc;
use std::time::Duration;
use terminal::command_context::{ClientDescriptors, CommandContext, Streams};
use terminal::environment::Environment;
use terminal::exit::Exit;
use terminal::interrupt::Interrupt;

/// The variable that names the shell that asks.
const ASKS: &str = "QUINTET_COMPLETE";
const PROGRAM: &str = "quintet";
/// Longest wait for the names of a pool.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Global options with a value that lead to a pool.
const POOL_OPTIONS: [&str; 5] = [
    "-r",
    "--repo",
    "--repository-file",
    "--password-file",
    "--key-file",
];

/// The script for bash. For bash alone names with @ and : are several words, so that a script that
/// takes words as they come completes none of them.
const BASH: &str = r#"_quintet() {
    local cur=$2 words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    words[cword]=$2
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n @:= -c cur -w words -i cword
    fi
    local IFS=$'\013'
    COMPREPLY=($(_CLAP_IFS=$IFS _CLAP_COMPLETE_INDEX=$cword QUINTET_COMPLETE=bash quintet -- "${words[@]}"))
    # Bash replaces no more than its own last word.
    COMPREPLY=("${COMPREPLY[@]#"${cur%"$2"}"}")
    [[ ${COMPREPLY-} != *[=/:] ]] || compopt -o nospace 2>/dev/null
}
complete -o bashdefault -F _quintet quintet
"#;

/// Returns the script that a shell loads.
pub(super) fn script(shell: &str) -> io::Result<Vec<u8>> {
    if shell == "bash" {
        return Ok(BASH.into());
    }
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let shell = shells.completer(shell).ok_or(io::ErrorKind::Unsupported)?;
    shell.write_registration(ASKS, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    Ok(script)
}

/// Answers a shell. `None`: no shell asks.
pub(super) fn answer(arguments: &[OsString]) -> Option<Exit> {
    let words = arguments.to_vec();
    let asked = CompleteEnv::with_factory(move || with_names(Cli::command(), &words)).var(ASKS);
    match asked.try_complete(arguments.iter(), std::env::current_dir().ok().as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(Exit::Done),
        Err(_) => Some(Exit::Failed),
    }
}

/// Lets arguments be completed by the names that their placeholder in the help promises.
fn with_names(command: Command, words: &[OsString]) -> Command {
    let command = command.mut_args(|arg| {
        let placeholder = arg.get_value_names().and_then(|names| names.first());
        let names = placeholder.and_then(|name| Names::of(name.as_str()));
        match names {
            Some(names) => named(arg, names, pool_options(words)),
            None => arg,
        }
    });
    command.mut_subcommands(|below| with_names(below, words))
}

fn named(arg: Arg, names: Names, options: Vec<OsString>) -> Arg {
    arg.add(ArgValueCompleter::new(move |begun: &OsStr| {
        let begun = begun.to_str().unwrap_or_default();
        let all = names.all(&options).into_iter();
        let fitting = all.filter(|(name, _)| name.starts_with(begun));
        let candidates = fitting.map(|(name, help)| {
            CompletionCandidate::new(name).help((!help.is_empty()).then(|| help.into()))
        });
        candidates.collect()
    }))
}

/// Kinds of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Snapshots,
    /// Images, streams, and snapshots of volumes.
    States,
    Volumes,
    /// Whatever can be cloned.
    Sources,
    Policies,
}

impl Names {
    /// Returns what the placeholder of an argument stands for.
    fn of(placeholder: &str) -> Option<Self> {
        Some(match placeholder {
            "SNAPSHOT" | "SNAPSHOT[:PATH]" => Self::Snapshots,
            "NAME[@SNAPSHOT]" | "VOLUME@NAME" | "IMAGE" => Self::States,
            "VOLUME" => Self::Volumes,
            "SOURCE" => Self::Sources,
            "POLICY" => Self::Policies,
            _ => return None,
        })
    }

    /// Returns the names, each with words about it.
    fn all(self, options: &[OsString]) -> Vec<(String, String)> {
        let mut all = self.listed(options);
        let mut reported = HashSet::new();
        all.retain(|(name, _)| reported.insert(name.clone()));
        all
    }

    fn listed(self, options: &[OsString]) -> Vec<(String, String)> {
        let snapshots = || ask(options, &["snapshots"]);
        let text = |object: &Value, key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let time = |object: &Value| text(object, "time").chars().take(16).collect();
        let state = |object: &Value| Some((object["name"].as_str()?.to_owned(), time(object)));
        let volumes = || {
            let all = ask(options, &["volume", "list"]).into_iter();
            all.filter_map(|volume| Some((volume["name"].as_str()?.to_owned(), String::new())))
        };
        match self {
            Self::Snapshots => {
                let mut all = vec![("latest".to_owned(), String::new())];
                for snapshot in snapshots() {
                    all.push((text(&snapshot, "short_id"), time(&snapshot)));
                    all.extend(state(&snapshot));
                }
                all
            }
            Self::States => snapshots().iter().filter_map(state).collect(),
            Self::Volumes => volumes().collect(),
            Self::Sources => {
                let states = snapshots();
                volumes().chain(states.iter().filter_map(state)).collect()
            }
            Self::Policies => {
                let all = shipped::ALL.iter();
                all.map(|one| (one.name.to_owned(), one.purpose.to_owned()))
                    .collect()
            }
        }
    }
}

/// Returns the options of an unfinished line that lead to a pool. The line follows `--`.
fn pool_options(words: &[OsString]) -> Vec<OsString> {
    let mut options = Vec::new();
    let mut words = words.iter().skip_while(|word| *word != "--").skip(1);
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let is_whole = text.split_once('=').map(|(name, _)| name);
        if POOL_OPTIONS.contains(&text.as_ref()) {
            options.push(word.clone());
            options.extend(words.next().cloned());
        } else if is_whole.is_some_and(|name| POOL_OPTIONS.contains(&name)) {
            options.push(word.clone());
        }
    }
    options
}

/// Returns the objects that a command prints, but its summary. None after [`WAIT_MAX`]: the process
/// then ends, and with it the thread that still waits for the pool.
fn ask(options: &[OsString], command: &[&str]) -> Vec<Value> {
    let mut words = vec![OsString::from(PROGRAM), "--json".into()];
    words.extend(options.iter().cloned());
    words.extend(command.iter().map(OsString::from));
    let (tell, reported) = mpsc::sync_channel(1);
    std::thread::spawn(move || tell.send(output_of(&words).unwrap_or_default()));
    let text = reported.recv_timeout(WAIT_MAX).unwrap_or_default();
    let objects = text.lines().filter_map(|l| serde_json::from_str(l).ok());
    let is_summary = |object: &Value| object["message_type"] == "summary";
    objects.filter(|object| !is_summary(object)).collect()
}

/// Runs a command without a terminal, and without programs that could open a window to ask.
fn output_of(words: &[OsString]) -> io::Result<String> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let mut output = File::from(memfd_create("completion", MemfdFlags::CLOEXEC)?);
    let streams = Streams {
        input: null.try_clone()?,
        output: output.try_clone()?,
        error: null,
        from_client: Some(ClientDescriptors {
            terminal: None,
            passphrase: None,
        }),
    };
    let all = Environment::of_process();
    let all = all.all().iter().map(|(n, v)| (n.clone(), v.clone()));
    let silent = all.filter(|(name, _)| name != "QUINTET_PASSWORD_COMMAND");
    let environment = Environment::from_pairs(silent);
    let context = CommandContext::new(environment, Interrupt::of_command()?, streams);
    let cli = Cli::try_parse_from(words).map_err(io::Error::other)?;
    super::run_for(context, cli, words, None);
    let mut text = String::new();
    output.rewind()?;
    output.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn options_of_the_line_lead_to_the_pool() {
        let line = "/usr/bin/quintet -r no -- quintet --repo /p ls --password-file=/x -l lat";
        let expected = words("--repo /p --password-file=/x");
        assert_eq!(pool_options(&words(line)), expected);
        assert!(pool_options(&words("quintet -- quintet ls --repo")) == words("--repo"));
        assert!(pool_options(&words("quintet ls")).is_empty());
    }

    #[test]
    fn placeholders_of_the_help_promise_names() {
        let command = with_names(Cli::command(), &[]);
        let completes = |path: &[&str], id: &str| {
            let mut at = &command;
            for name in path {
                at = at.find_subcommand(name).unwrap();
            }
            let arg = at.get_arguments().find(|arg| arg.get_id() == id).unwrap();
            arg.get::<ArgValueCompleter>().is_some()
        };
        let named: [(&[&str], &str); 12] = [
            (&["restore"], "snapshot"),
            (&["snapshots"], "snapshots"),
            (&["forget"], "snapshots"),
            (&["export"], "image"),
            (&["volume", "delete"], "name"),
            (&["volume", "info"], "name"),
            (&["volume", "rename"], "name"),
            (&["volume", "resize"], "name"),
            (&["volume", "rollback"], "snapshot"),
            (&["volume", "clone"], "source"),
            (&["policy", "set"], "policy"),
            (&["serve"], "policy"),
        ];
        for (path, id) in named {
            assert!(completes(path, id), "{path:?} {id}");
        }
        assert!(!completes(&["volume", "create"], "name"));
        assert!(!completes(&["backup"], "tag"));
    }

    #[test]
    fn policies_need_no_pool() {
        let all = Names::Policies.all(&[]);
        assert!(all.iter().any(|(name, _)| name == "vm-images"));
    }
}
