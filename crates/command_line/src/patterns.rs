//! The options for patterns, and the help about them. Commands that choose files include these
//! options.
//!
//! Invariant: every command with patterns has the same options and refers to the one topic.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Text of `quintet help patterns`.
pub const PATTERNS_HELP: &str = "\
Patterns choose files and directories by name or path: in `backup --exclude`, `restore` and `ls`
with --include and --exclude, `rewrite --exclude`, `find`, and `exclude` of the configuration file.

  name, *.o    an entry of this name, anywhere
  a/b          b in a directory a, anywhere
  /a/b         this path only
  a/**/b       b at any depth below a
  a/**         everything below a, but not a itself
  name/        directories only
  !name        revokes the match of an earlier pattern

Within a name, * stands for any bytes, ? for one byte, [a-z] for one of these, [!a-z] for one
other, and \\ takes the meaning from the character behind it. A * does not match a /.

A leading / is the root of the file system in a backup, and the top of the snapshot elsewhere; with
SNAPSHOT:PATH it is that PATH.

The last pattern that matches an entry decides: first come those of --exclude, then --iexclude,
then those in files. A decision about a directory holds for everything below it: an excluded
directory is not entered, so a later !name revokes nothing there. `find` lists each entry that
matches, and searches below it too.

--iexclude, --iinclude, --iexclude-file and --iinclude-file, and `find --ignore-case`, ignore the
case of the letters A to Z. Files of patterns have one on each line; lines that begin with # are
comments, and spaces at both ends are removed. - is standard input.

Examples:
  quintet backup /home --exclude '*.o' --exclude '/home/*/.cache' --exclude '!keep.o'
  quintet restore latest:/home --target /tmp/back --include '/alice/**/*.odt'
  quintet ls -R latest --iinclude '*.jpg'
  quintet rewrite latest --exclude /home/alice/secret --forget
  quintet find '**/etc/fstab'";

/// Patterns of excluded files.
#[derive(Args, Clone, Debug, Default)]
pub struct ExcludeArgs {
    /// Exclude matching files; repeatable (see quintet help patterns)
    #[arg(short, long, value_name = "PATTERN", help_heading = "Selection")]
    pub exclude: Vec<OsString>,
    /// Like --exclude, but ignore the case of letters
    #[arg(
        long,
        value_name = "PATTERN",
        help_heading = "Selection",
        hide_short_help = true
    )]
    pub iexclude: Vec<OsString>,
    /// File with patterns for --exclude, one on each line
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub exclude_file: Vec<PathBuf>,
    /// Like --exclude-file, but ignore the case of letters
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Selection",
        hide_short_help = true
    )]
    pub iexclude_file: Vec<PathBuf>,
}

/// Patterns of included files.
#[derive(Args, Clone, Debug, Default)]
pub struct IncludeArgs {
    /// Only matching files; repeatable (see quintet help patterns)
    #[arg(short, long, value_name = "PATTERN", help_heading = "Selection")]
    pub include: Vec<OsString>,
    /// Like --include, but ignore the case of letters
    #[arg(
        long,
        value_name = "PATTERN",
        help_heading = "Selection",
        hide_short_help = true
    )]
    pub iinclude: Vec<OsString>,
    /// File with patterns for --include, one on each line
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub include_file: Vec<PathBuf>,
    /// Like --include-file, but ignore the case of letters
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Selection",
        hide_short_help = true
    )]
    pub iinclude_file: Vec<PathBuf>,
}
