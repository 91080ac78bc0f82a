//! `generate`: writes man pages and shell completions from the definitions of the command line.
//! [`super::run`] calls this.
//!
//! Invariant: it opens no pool.

use super::{VERSION, completion};
use clap::Command;
use clap_mangen::Man;
use command_line::help::{Length, shaped};
use command_line::{GenerateArgs, GenerateWhat};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use terminal::exit::Exit;

pub(super) fn run(args: &GenerateArgs) -> anyhow::Result<Exit> {
    let shell = match args.what {
        GenerateWhat::Man => {
            man_pages(&args.to)?;
            return Ok(Exit::Done);
        }
        GenerateWhat::Bash => "bash",
        GenerateWhat::Zsh => "zsh",
        GenerateWhat::Fish => "fish",
        GenerateWhat::Powershell => "powershell",
        GenerateWhat::Elvish => "elvish",
    };
    io::stdout().write_all(&completion::script(shell)?)?;
    Ok(Exit::Done)
}

/// Writes `quintet.1`, `quintet-backup.1` and so on.
fn man_pages(to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    let command = shaped(VERSION, Length::Long);
    write_page(&command, to)?;
    pages_below(&command, to)
}

fn pages_below(command: &Command, to: &Path) -> io::Result<()> {
    let shown = |sub: &&Command| !sub.is_hide_set() && sub.get_name() != "help";
    for sub in command.get_subcommands().filter(shown) {
        write_page(sub, to)?;
        pages_below(sub, to)?;
    }
    Ok(())
}

/// Writes the page of one command.
fn write_page(command: &Command, to: &Path) -> io::Result<()> {
    let mut command = command.clone();
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let has_commands = command.get_subcommands().any(|sub| !sub.is_hide_set());
    let more = command.get_after_help().map(ToString::to_string);
    let man = Man::new(command.override_usage(usage))
        .source("quintet")
        .manual("Quintet");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    page.extend(extra_sections(&more.unwrap_or_default()).into_bytes());
    std::fs::write(to.join(man.get_filename()), page)
}

/// Returns the text below the options as sections. A paragraph that begins with a line like
/// `Examples:` is a section of that name. Indented lines stay lines.
fn extra_sections(text: &str) -> String {
    let mut page = String::new();
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        let (title, lines) = match paragraph.split_once(":\n") {
            Some((title, lines)) if !title.contains(' ') || title == "Exit codes" => (title, lines),
            _ => ("Notes", paragraph),
        };
        let title = title.to_uppercase();
        let _ = writeln!(page, ".SH \"{title}\"");
        for line in lines.lines() {
            let text = line.replace('\\', "\\e").replace('-', "\\-");
            // A line that begins with a dot or an apostrophe would be a request.
            let _ = writeln!(page, ".br\n\\&{text}");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn a_page_for_every_command() {
        let directory = tempfile::tempdir().unwrap();
        man_pages(directory.path()).unwrap();
        let page = |name: &str| std::fs::read_to_string(directory.path().join(name));
        let program = page("quintet.1").unwrap();
        for section in ["EXIT CODES", "ENVIRONMENT", "GLOBAL OPTIONS", "EXAMPLES"] {
            assert!(program.contains(section), "{section}: {program}");
        }
        let backup = page("quintet-backup.1").unwrap();
        assert!(
            backup.contains("\\fBquintet backup\\fR [OPTIONS]"),
            "{backup}"
        );
        assert!(
            backup.contains(".SH \"EXAMPLES\"") && !backup.contains("repository"),
            "{backup}"
        );
        assert!(page("quintet-volume-create.1").is_ok());
        for command in command_line::Cli::command()
            .get_subcommands()
            .filter(|c| !c.is_hide_set())
        {
            let name = format!("quintet-{}.1", command.get_name());
            assert!(page(&name).is_ok(), "{name}");
        }
    }
}
