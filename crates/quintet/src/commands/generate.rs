//! `generate`: writes man pages and shell completions from the definitions of the command line.
//! [`super::run`] calls this.
//!
//! Invariant: it opens no pool.

use super::completion;
use clap::CommandFactory;
use command_line::{Cli, GenerateArgs, GenerateWhat};
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
    clap_mangen::generate_to(Cli::command(), to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_for_every_command() {
        let directory = tempfile::tempdir().unwrap();
        man_pages(directory.path()).unwrap();
        let page = |name: &str| std::fs::read_to_string(directory.path().join(name));
        assert!(page("quintet.1").unwrap().contains("Exit codes"));
        for command in Cli::command()
            .get_subcommands()
            .filter(|c| !c.is_hide_set())
        {
            let name = format!("quintet-{}.1", command.get_name());
            assert!(page(&name).is_ok(), "{name}");
        }
    }
}
