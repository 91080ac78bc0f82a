//! `host doctor`: tries what `host` uses, and says what to do. [`super::run`] calls this.
//!
//! Invariant: a line says "works" only after the thing was tried and worked.

use crate::arguments::HostDoctorArgs;
use anyhow::Context;
use linux_host::{Ebpf, HOOKS, Tracer};
use machine::{Mount, cached};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::shell::Shell;
use terminal::table::Table;

struct Finding {
    what: String,
    works: bool,
    /// The reason, or the substitute.
    why: String,
    /// Advice to the user; empty: nothing is to be done.
    remedy: &'static str,
}

pub(super) fn run(shell: &Shell, args: &HostDoctorArgs) -> anyhow::Result<Exit> {
    let path = &args.path;
    let mount = Mount::of(path).with_context(|| path.display().to_string())?;
    let privilege = privilege();
    let may_load = privilege.works;
    let mut findings = vec![by_cachestat(path), privilege];
    let kind = match mount.is_fuse() {
        true => "fuse",
        false => mount.kind.as_str(),
    };
    // Without the privilege each of them would only say so again.
    if may_load {
        findings.extend(hooks(kind));
    }
    findings.push(events(&mount, kind));
    findings.push(requests(path));
    let console = &shell.console;
    let mut table = Table::new(["What", "State", "Why"], &[]);
    for finding in &findings {
        let state = if finding.works { "works" } else { "missing" };
        console.message(
            Object::message("host_doctor")
                .text("what", &finding.what)
                .boolean("works", finding.works)
                .text("why", &finding.why)
                .text("remedy", finding.remedy),
        )?;
        let why = match finding.remedy {
            "" => finding.why.clone(),
            remedy => format!("{}; {remedy}", finding.why),
        };
        table.row([finding.what.clone(), state.to_owned(), why]);
    }
    console.line(format!("{} on {}", mount.kind, mount.point.display()))?;
    for line in table.lines() {
        console.line(line)?;
    }
    Ok(Exit::Done)
}

fn by_cachestat(path: &Path) -> Finding {
    let asked = File::open(path).and_then(|file| cached(&file, 0, 0));
    let (works, why, remedy) = match asked {
        Ok(_) => (true, "the system reports cached pages".to_owned(), ""),
        Err(e) => {
            let remedy = match e.raw_os_error().map(io::Error::from_raw_os_error) {
                Some(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    "run as root, or as the owner of the files"
                }
                _ => {
                    "use Linux 6.5 or newer; in a systemd unit, systemd 257 or newer, or no SystemCallFilter"
                }
            };
            (false, e.to_string(), remedy)
        }
    };
    Finding {
        what: "cachestat".to_owned(),
        works,
        why,
        remedy,
    }
}

/// Numbers of capabilities, as `linux/capability.h` has them.
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

fn privilege() -> Finding {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    let has = |number: u32| effective.is_some_and(|set| set >> number & 1 == 1);
    let works = has(SYS_ADMIN) || has(BPF) && has(PERFMON);
    Finding {
        what: "privilege".to_owned(),
        works,
        why: match works {
            true => "this process may load programs into the kernel".to_owned(),
            false => "eBPF needs CAP_BPF and CAP_PERFMON".to_owned(),
        },
        remedy: match works {
            true => "",
            false => "run as root, or in a systemd unit with these capabilities",
        },
    }
}

/// Tries the programs that the file system needs.
fn hooks(kind: &str) -> impl Iterator<Item = Finding> {
    let needed = HOOKS
        .iter()
        .filter(move |hook| hook.only_for.is_none_or(|only| only == kind));
    needed.map(|hook| {
        let tried = Ebpf::probe(hook);
        Finding {
            what: hook.tracepoint.to_owned(),
            works: tried.is_ok(),
            why: match &tried {
                Ok(()) => "attached and detached again".to_owned(),
                Err(e) => e.to_string(),
            },
            remedy: match tried {
                Ok(()) => "",
                Err(_) => "quintet host events compares states instead",
            },
        }
    })
}

/// Tries `host defrag trace`.
fn requests(path: &Path) -> Finding {
    let tried = Tracer::start(path, false, units::UnixNanos(0));
    let tried = tried.map_err(|e| e.to_string()).and_then(|tracer| {
        let unseen = tracer.unseen().iter();
        let unseen: Vec<_> = unseen.map(|(what, why)| format!("{what}: {why}")).collect();
        match unseen.is_empty() {
            true => Ok(tracer.is_exact()),
            false => Err(format!("not seen: {}", unseen.join(", "))),
        }
    });
    let (works, why, remedy) = match tried {
        Ok(false) => (
            true,
            "quintet host defrag trace sees requests".to_owned(),
            "",
        ),
        Ok(true) => (
            true,
            "quintet host defrag trace sees them by system calls, at a cost for each".to_owned(),
            "",
        ),
        Err(why) => (false, why, "run quintet host defrag without --trace"),
    };
    Finding {
        what: "requests for files".to_owned(),
        works,
        why,
        remedy,
    }
}

fn events(mount: &Mount, kind: &str) -> Finding {
    let what = "page events".to_owned();
    let known = matches!(kind, "ext4" | "xfs" | "btrfs" | "fuse");
    let tried = match known {
        true => Ebpf::watch(mount.device, kind, 1).map_err(|e| e.to_string()),
        false => Err(format!("events of {kind} may be incomplete")),
    };
    match tried {
        Ok(_) => Finding {
            what,
            works: true,
            why: "quintet host events sees them as they happen".to_owned(),
            remedy: "",
        },
        Err(why) => Finding {
            what,
            works: false,
            why,
            remedy: "quintet host events compares states by cachestat",
        },
    }
}
