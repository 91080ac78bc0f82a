//! The behaviour scripts of `tests`: a job for each, with the servers and programs that its suite
//! uses.
//!
//! The comment at a script's head may say more, a line each:
//!
//! ```text
//! # alone: WHY      nothing may run beside it
//! # seconds: N      its time limit, if 300 s are too few
//! # long            it runs only with --long
//! ```

use super::artifacts::Programs;
use super::job::{Job, JobKind};
use std::io;
use std::path::{Path, PathBuf};

const SECONDS_MAX: u64 = 300;
/// Programs beside the scripts that are no tests: tools that scripts call, and measurements. Files
/// that scripts source have no `#!`.
const NO_TESTS: &[&str] = &[
    "measure",
    "newer-clients",
    "nbd-server",
    "fuse-server",
    "system",
];

/// A directory of scripts, and what they are run against.
struct Suite {
    name: &'static str,
    directory: &'static str,
    /// Variables, and the programs or files that they name.
    variables: &'static [(&'static str, Value)],
}

#[derive(Clone, Copy)]
enum Value {
    /// A program or example of the build.
    Built(&'static str),
    /// A file of the checkout.
    File(&'static str),
    /// The text itself.
    Text(&'static str),
}

use Value::{Built, File, Text};

const SUITES: &[Suite] = &[
    Suite {
        name: "nbd",
        directory: "nbd",
        variables: &[("QUINTET_NBD_SERVER", Built("nbd_memory"))],
    },
    // The same behaviours of volumes and images of a pool.
    Suite {
        name: "serve",
        directory: "nbd",
        variables: &[("QUINTET_NBD_SERVER", File("tests/cli/nbd-server.sh"))],
    },
    Suite {
        name: "iscsi",
        directory: "iscsi",
        variables: &[("QUINTET_ISCSI_SERVER", Built("iscsi_memory"))],
    },
    Suite {
        name: "fuse",
        directory: "fuse",
        variables: &[("QUINTET_FUSE_SERVER", Built("fuse_memory"))],
    },
    // Disks of a pool have whole sectors.
    Suite {
        name: "files",
        directory: "fuse",
        variables: &[
            ("QUINTET_FUSE_SERVER", File("tests/cli/fuse-server.sh")),
            ("QUINTET_FUSE_SECTORS", Text("1")),
        ],
    },
    Suite {
        name: "host",
        directory: "host",
        variables: &[
            ("PAGE_CHECKS", Built("page_checks")),
            ("MIGRATIONS_PROGRAM", Built("migrations")),
            ("POWER_CUTS", Built("power_cuts")),
            ("FUSE_SERVER", Built("fuse_memory")),
            ("LAYOUT", Built("layout")),
        ],
    },
    Suite {
        name: "cli",
        directory: "cli",
        variables: &[("LAYOUT", Built("layout")), ("XTASK", Built("xtask"))],
    },
    Suite {
        name: "guest",
        directory: "guest",
        variables: &[],
    },
];
/// Returns a job for each script of the checkout at `root`.
pub fn jobs(root: &Path, programs: &Programs, is_long: bool) -> io::Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for suite in SUITES {
        for script in scripts(&root.join("tests").join(suite.directory))? {
            let text = super::read(&script)?;
            let Some(shell) = shell(&text) else { continue };
            let head = Head::of(&text)
                .map_err(|why| io::Error::other(format!("{}: {why}", script.display())))?;
            if head.is_long && !is_long {
                continue;
            }
            let mut job = job(root, programs, suite, &script, &head)?;
            job.program = shell.into();
            if is_long {
                job.environment.push(("QUINTET_LONG".into(), "1".into()));
            }
            jobs.push(job);
        }
    }
    Ok(jobs)
}

/// Returns the shell that a script asks for in its first line. None: it is there to be sourced.
fn shell(text: &str) -> Option<&'static str> {
    let asked = text.lines().next()?.strip_prefix("#!")?;
    Some(if asked.ends_with("bash") {
        "bash"
    } else {
        "sh"
    })
}

fn scripts(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let is_test = |name: &str| !NO_TESTS.contains(&name);
        if path.extension().is_some_and(|e| e == "sh") && stem(&path).is_some_and(is_test) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn stem(path: &Path) -> Option<&str> {
    path.file_stem()?.to_str()
}

fn job(
    root: &Path,
    programs: &Programs,
    suite: &Suite,
    script: &Path,
    head: &Head,
) -> io::Result<Job> {
    let built = |name: &str| {
        let path = programs.named(name).map(|path| path.display().to_string());
        path.ok_or_else(|| io::Error::other(format!("the build has not made {name}")))
    };
    let mut environment = vec![("QUINTET".to_owned(), built("quintet")?)];
    for (name, value) in suite.variables {
        let value = match value {
            Built(program) => built(program)?,
            File(path) => root.join(path).display().to_string(),
            Text(text) => (*text).to_owned(),
        };
        environment.push(((*name).to_owned(), value));
    }
    Ok(Job {
        name: format!("{}/{}", suite.name, stem(script).unwrap_or_default()),
        program: "sh".into(),
        arguments: vec![script.display().to_string()],
        environment,
        // Some tools leave files where they run.
        directory: None,
        seconds_max: head.seconds_max,
        is_alone: head.is_alone,
        judge: JobKind::Script,
    })
}

/// The settings in the comment at a script's head.
#[derive(PartialEq, Eq, Debug)]
pub struct Head {
    /// Its time limit.
    pub seconds_max: u64,
    /// Whether nothing may run beside it.
    pub is_alone: bool,
    /// Whether it runs only with --long.
    pub is_long: bool,
}

impl Head {
    /// Reads the comment at the head of a script. An error says what is wrong with it.
    pub fn of(text: &str) -> Result<Self, String> {
        let mut head = Self {
            seconds_max: SECONDS_MAX,
            is_alone: false,
            is_long: false,
        };
        for line in text.lines().take_while(|line| line.starts_with('#')) {
            match line.strip_prefix("# ").unwrap_or_default().split_once(':') {
                Some(("alone", why)) if why.trim().is_empty() => {
                    return Err("`# alone:` gives no reason".into());
                }
                Some(("alone", _)) => head.is_alone = true,
                Some(("seconds", number)) => {
                    let number = number.trim().parse();
                    head.seconds_max =
                        number.map_err(|_| "`# seconds:` wants a number".to_owned())?;
                }
                None if line == "# long" => head.is_long = true,
                _ => {}
            }
        }
        Ok(head)
    }
}
