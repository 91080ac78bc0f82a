//! Words that may occur only in some crates: storage, clock and randomness have one door. `check`
//! calls this.
//!
//! Invariant: tests, examples and `dev` crates are exempt, except for words that are never allowed.

use super::manifest::Layer;
use super::{Finding, SourceFile, Tree};

struct Banned {
    words: &'static [&'static str],
    /// Crates that may use them.
    crates: &'static [&'static str],
    /// Files elsewhere that need them, and why.
    exceptions: &'static [(&'static str, &'static str)],
    instead: &'static str,
}

const BANNED: &[Banned] = &[
    Banned {
        words: &[
            "std::fs",
            "File::open",
            "File::create",
            "OpenOptions",
            "tokio::fs",
        ],
        crates: &[
            "media",
            "archive",
            "linux_host",
            "machine",
            "unlocking",
            "host_tools",
            "image_sources",
            "setup",
            "quintet",
        ],
        exceptions: &[
            (
                "crates/notifications/src/url.rs",
                "the authorities of this machine are a file",
            ),
            (
                "crates/connections/src/listener.rs",
                "a server's socket is a name that it has to remove",
            ),
            (
                "crates/terminal/src/calendar.rs",
                "the time zone of this machine is a file",
            ),
            (
                "crates/terminal/src/interrupt.rs",
                "the system says in a file which signals are ignored",
            ),
            (
                "crates/terminal/src/command_context.rs",
                "a command writes to descriptors and asks on a terminal",
            ),
            (
                "crates/terminal/src/console.rs",
                "the width of a terminal is a property of its descriptor",
            ),
            (
                "crates/server/src/control/wire.rs",
                "clients send descriptors",
            ),
            (
                "crates/server/src/control/connection.rs",
                "a command works in the directory of its client",
            ),
            (
                "crates/server/src/control/view.rs",
                "the server compares which files it and a client see",
            ),
            (
                "crates/iscsi_access/src/file.rs",
                "the user of a server says in a file who may log in",
            ),
            (
                "crates/server/src/threads/trimmer.rs",
                "the system says in a file how much memory the process has",
            ),
        ],
        instead: "storage has one door: media",
    },
    Banned {
        words: &["SystemTime", "UNIX_EPOCH"],
        crates: &["media", "quintet"],
        exceptions: &[],
        instead: "the time is asked for with media::Clock",
    },
    Banned {
        words: &["Instant::now"],
        crates: &[
            "media",
            "terminal",
            "server",
            "host_tools",
            "image_sources",
            "notifications",
            "quintet",
            "connections",
            "nbd",
            "iscsi",
        ],
        exceptions: &[(
            "crates/archive/src/image/target.rs",
            "how fast the disk takes writes past the page cache decides whether they are worth it",
        )],
        instead: "time is an argument below the front ends",
    },
    Banned {
        words: &["thread_rng", "rand::", "getrandom", "OsRng", "RandomState"],
        crates: &["media"],
        exceptions: &[],
        instead: "randomness has one door: media::Random",
    },
    Banned {
        words: &[
            "println!",
            "eprintln!",
            "print!",
            "eprint!",
            "std::env::",
            "process::exit",
        ],
        crates: &["quintet"],
        exceptions: &[(
            "crates/terminal/src/environment.rs",
            "variables of the process are read in one place",
        )],
        instead: "only the program speaks to its user and its surroundings",
    },
    Banned {
        words: &["thread::sleep"],
        crates: &[],
        exceptions: &[],
        instead: "no sleeping loops: wait for what you wait for",
    },
];

/// Never allowed, tests included.
const NEVER: &[&str] = &["todo!", "unimplemented!", "dbg!"];

/// Decoders of bytes from disk and network: a bad byte is an error, never a panic.
const DECODERS: &[&str] = &[
    "crates/format/src/",
    "crates/nbd/src/wire",
    "crates/fuse/src/wire",
    "crates/duet/src/progress",
];
const PANICS: &[&str] = &[".unwrap()", "panic!", "unreachable!", "from_utf8_unchecked"];

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        let shipped = tree
            .manifest(&source.krate)
            .is_some_and(|m| m.layer != Some(Layer::Dev));
        for (line, code) in source.code_lines() {
            let mut refuse = |message: String| {
                findings.push(Finding::refuse(&source.path, line, message));
            };
            for word in NEVER.iter().filter(|word| stands_in(code, word)) {
                refuse(format!("{word} is never right in committed code"));
            }
            if !shipped || source.is_test_line(line) {
                continue;
            }
            for rule in BANNED.iter().filter(|rule| rule.applies_to(source)) {
                for word in rule.words.iter().filter(|word| stands_in(code, word)) {
                    refuse(format!("{word}: {}", rule.instead));
                }
            }
            if DECODERS.iter().any(|d| source.path.starts_with(d)) {
                for word in PANICS.iter().filter(|word| code.contains(**word)) {
                    refuse(format!("{word}: bytes from disk or network never panic"));
                }
            }
        }
    }
    findings.extend(private_paths(tree));
    findings
}

impl Banned {
    fn applies_to(&self, source: &SourceFile) -> bool {
        !self.crates.contains(&source.krate.as_str())
            && !self.exceptions.iter().any(|(path, _)| *path == source.path)
    }
}

/// Returns true if the word occurs, and not as the end of a longer one.
fn stands_in(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code.get(..at).and_then(|b| b.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Refuses files that name this machine's directories.
fn private_paths(tree: &Tree) -> Vec<Finding> {
    let sources = tree.sources.iter().map(|s| (&s.path, &s.text));
    let texts = tree.texts.iter().map(|(path, text)| (path, text));
    let mut findings = Vec::new();
    for (path, text) in sources.chain(texts) {
        for (line, content) in (1..).zip(text.lines()) {
            for private in tree
                .private_paths
                .iter()
                .filter(|p| content.contains(p.as_str()))
            {
                let message = format!("names {private}, which exists on this machine only");
                findings.push(Finding::refuse(path, line, message));
            }
        }
    }
    findings
}
