//! Parses a command line, and shapes its help: `-h` fits a screen, `--help` has everything. The
//! program and its man pages call this.
//!
//! Invariant: help comes from the definitions of commands and options alone. Options of all
//! commands are in the help of the program only.

use crate::Cli;
use clap::builder::PossibleValue;
use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory, FromArgMatches};
use std::ffi::OsString;
use std::fmt::Write;

/// Commands in the order in which the help of the program shows them.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Store", &["backup", "import", "copy"]),
    (
        "Find and restore",
        &[
            "snapshots",
            "ls",
            "find",
            "diff",
            "restore",
            "dump",
            "export",
            "mount",
        ],
    ),
    (
        "Run from the store",
        &["serve", "volume", "top", "qos", "policy"],
    ),
    (
        "Keep and free",
        &["tag", "rewrite", "forget", "undelete", "gc"],
    ),
    (
        "Verify and repair",
        &["status", "check", "scrub", "repair", "stats", "defrag"],
    ),
    (
        "Set up",
        &[
            "init", "key", "parity", "upgrade", "setup", "config", "run", "notify", "generate",
        ],
    ),
    ("This machine", &["host"]),
];
/// Columns of the list of commands.
const COLUMNS: usize = 80;
/// Column at which the list of commands says what each does.
const ABOUT_COLUMN: usize = 14;

/// How much help says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A screen: the first sentence on each option.
    Short,
    /// Everything, and examples.
    Long,
}

impl Length {
    /// Returns the length that the user asked for.
    fn of(arguments: &[OsString]) -> Self {
        let is_long = |argument: &OsString| argument == "--help" || argument == "help";
        match arguments.iter().skip(1).any(is_long) {
            true => Self::Long,
            false => Self::Short,
        }
    }
}

/// Parses a command line. The error has the text of help and of the version, if they were asked
/// for. `version` is that of the program.
pub fn parse(arguments: &[OsString], version: &'static str) -> Result<Cli, clap::Error> {
    let mut command = Cli::command().version(version);
    let parsed = match command.try_get_matches_from_mut(arguments) {
        Ok(matches) => return Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut command)),
        Err(e) => e,
    };
    let is_help = matches!(
        parsed.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let shaped = is_help.then(|| shaped(version, Length::of(arguments)));
    let again = shaped.and_then(|command| command.try_get_matches_from(arguments).err());
    Err(again.unwrap_or(parsed))
}

/// Returns the command line as help shows it.
pub fn shaped(version: &'static str, length: Length) -> Command {
    let command = Cli::command().version(version).mut_args(compact);
    let mut command = below(command, "quintet", length);
    // Which layout the library takes is decided here.
    command.build();
    let more = match length {
        Length::Short => {
            "quintet --help has the options of every command, the environment and exit codes.\n\
             quintet COMMAND --help has details and examples; quintet help patterns the syntax \
             of patterns."
        }
        Length::Long => crate::AFTER_LONG_HELP,
    };
    let options = match length {
        Length::Short => "",
        Length::Long => "\n\nOptions of every command:\n{options}",
    };
    let groups = groups(&command);
    let template =
        format!("{{about}}\n\n{{usage-heading}} {{usage}}\n{groups}{options}{{after-help}}");
    let hidden = |arg: Arg| {
        let is_hidden = arg.is_global_set() || arg.is_hide_set();
        arg.hide(is_hidden)
    };
    each_below(command, &hidden)
        .help_template(template)
        .after_help(more)
}

/// Changes the arguments of all commands below `command`.
fn each_below(command: Command, change: &impl Fn(Arg) -> Arg) -> Command {
    names_below(&command).iter().fold(command, |command, name| {
        command.mut_subcommand(name, |sub| each_below(sub.mut_args(change), change))
    })
}

fn names_below(command: &Command) -> Vec<String> {
    let subs = command.get_subcommands();
    subs.map(|sub| sub.get_name().to_owned()).collect()
}

/// Shapes the help of the commands below `command`, whose words are `words`.
fn below(command: Command, words: &str, length: Length) -> Command {
    names_below(&command).iter().fold(command, |command, name| {
        let words = format!("{words} {name}");
        command.mut_subcommand(name, |sub| below(one(sub, &words, length), &words, length))
    })
}

/// Shapes the help of one command.
fn one(command: Command, words: &str, length: Length) -> Command {
    let examples = command
        .get_after_help()
        .map(|text| unwrapped(&text.to_string()));
    let more = match (length, examples) {
        (Length::Short, _) => format!("{words} --help has details and examples."),
        (Length::Long, Some(examples)) => {
            format!("{examples}\n\nOptions of every command: quintet --help")
        }
        (Length::Long, None) => "Options of every command: quintet --help".to_owned(),
    };
    let shaped = command.mut_args(|arg| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let is_rare = arg.is_hide_short_help_set() && length == Length::Short;
        let is_hidden = arg.is_hide_set() || is_rare;
        with_values(compact(arg), first(&help, length)).hide(is_hidden)
    });
    shaped.after_help(more)
}

/// Returns an option that is shown in help of both lengths. If one were not, the library would use
/// its long layout, which takes four lines for each option.
fn compact(arg: Arg) -> Arg {
    arg.hide_short_help(false).hide_long_help(false)
}

/// Returns an option with this help, and the names of its values if the library would list them one
/// by one, in its long layout.
fn with_values(arg: Arg, help: &str) -> Arg {
    let values = arg.get_possible_values();
    if !values.iter().any(|value| value.get_help().is_some()) {
        let help = help.to_owned();
        return arg.help(help);
    }
    let shown = values.iter().filter(|value| !value.is_hide_set());
    let names: Vec<&str> = shown.map(PossibleValue::get_name).collect();
    let help = format!("{help} [values: {}]", names.join(", "));
    arg.help(help).hide_possible_values(true)
}

/// Joins the lines of each paragraph, which the terminal's width wraps. Indented lines stay lines:
/// examples, tables.
fn unwrapped(text: &str) -> String {
    let mut joined = String::new();
    let mut continues = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if !joined.is_empty() {
            joined.push(if continues && is_prose { ' ' } else { '\n' });
        }
        joined.push_str(line);
        continues = is_prose && !line.ends_with(':');
    }
    joined
}

/// Returns the first sentence, without its full stop, or all of a text.
fn first(text: &str, length: Length) -> &str {
    match (length, text.find(". ")) {
        (Length::Short, Some(end)) => &text[..end],
        (Length::Short, None) => text.trim_end_matches('.'),
        (Length::Long, _) => text,
    }
}

/// Lists the commands in groups.
fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = write!(text, "\n{title}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = write!(text, "\n  {name:<width$}", width = ABOUT_COLUMN - 2);
            let mut column = ABOUT_COLUMN;
            for (number, word) in about.split(' ').enumerate() {
                let needed = word.len() + usize::from(number > 0);
                if column + needed > COLUMNS {
                    let _ = write!(text, "\n{:ABOUT_COLUMN$}{word}", "");
                    column = ABOUT_COLUMN + word.len();
                    continue;
                }
                let _ = match number {
                    0 => write!(text, "{word}"),
                    _ => write!(text, " {word}"),
                };
                column += needed;
            }
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn help(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect::<Vec<_>>();
        parse(&words, "1").unwrap_err().to_string()
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
        let all: BTreeSet<&str> = shown.map(Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        assert_eq!(grouped.len(), all.len());
        assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn options_of_all_commands_are_shown_once() {
        for line in [
            "quintet -h",
            "quintet backup -h",
            "quintet volume create --help",
            "quintet help gc",
        ] {
            let text = help(line);
            assert!(!text.contains("--repository-file"), "{line}: {text}");
            assert!(text.contains("--help"), "{line}: {text}");
        }
        let text = help("quintet --help");
        for part in [
            "--repository-file",
            "--accept-changed-pool",
            "QUINTET_PASSWORD_FILE",
            "Exit codes",
            "Store:",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn hidden_options_stay_hidden() {
        for line in ["quintet defrag --help", "quintet defrag -h"] {
            assert!(!help(line).contains("--whole"), "{line}");
        }
        assert!(help("quintet backup --help").contains("--files-from-raw"));
        assert!(!help("quintet backup -h").contains("--files-from-raw"));
    }

    #[test]
    fn short_help_is_short() {
        for command in shaped("1", Length::Short).get_subcommands_mut() {
            let text = command.render_help().to_string();
            let name = command.get_name();
            assert!(
                text.lines().count() <= 64,
                "{name}: {}",
                text.lines().count()
            );
        }
        assert!(help("quintet -h").lines().count() <= 64);
    }

    #[test]
    fn an_option_takes_no_empty_lines() {
        fn visit(command: &Command, words: &str) {
            for flag in ["-h", "--help"] {
                let text = help(&format!("{words} {flag}"));
                assert!(!text.contains("\n\n      --"), "{text}");
            }
            for sub in command
                .get_subcommands()
                .filter(|sub| sub.get_name() != "help")
            {
                visit(sub, &format!("{words} {}", sub.get_name()));
            }
        }
        visit(&Cli::command(), "quintet");
    }

    #[test]
    fn paragraphs_are_joined_and_examples_are_not() {
        let text = "Examples:\n  one\n  two\n\nA sentence that\ngoes on.\nTable:\n  row";
        let joined = "Examples:\n  one\n  two\n\nA sentence that goes on. Table:\n  row";
        assert_eq!(unwrapped(text), joined);
    }

    /// Lines that are laid out by hand fit into a terminal of 80 columns.
    #[test]
    fn examples_are_not_wrapped() {
        fn visit(command: &Command, found: &mut Vec<String>) {
            let text = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let name = command.get_bin_name().unwrap_or_default();
            let wide = |line: &&str| line.starts_with(' ') && line.chars().count() > COLUMNS;
            found.extend(
                text.lines()
                    .filter(wide)
                    .map(|line| format!("{name}: {line}")),
            );
            command.get_subcommands().for_each(|sub| visit(sub, found));
        }
        let mut found = Vec::new();
        visit(&shaped("1", Length::Long), &mut found);
        assert!(found.is_empty(), "{found:#?}");
        let top = help("quintet --help");
        for line in top.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}
