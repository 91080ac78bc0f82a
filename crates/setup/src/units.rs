//! The units of the jobs of a configuration file. [`crate::apply`] writes them.
//!
//! Invariant: pure. The first line marks a unit as one of setup's: only these are changed or
//! removed. A service runs as the user quintet, with the rights that its job needs and no others,
//! as the shipped units do. Jobs that write take turns.

use configuration::{Configuration, Job, SourceKind, Task};
use std::path::{Path, PathBuf};

/// Beginning of each unit.
pub(crate) const MARKER: &str = "# Written by quintet setup";
/// Beginning of the names of these units.
pub(crate) const PREFIX: &str = "quintet-run-";
/// Longest random delay of a timer, seconds.
const DELAY_S_MAX: u64 = 30 * 60;
/// The random delay is at most this part of the period.
const DELAYS_A_PERIOD: u64 = 10;

/// A unit.
pub(crate) struct Unit {
    /// Its name, with `.service` or `.timer`.
    pub name: String,
    /// Its contents.
    pub text: String,
}

/// Facts for all units.
pub(crate) struct Facts<'a> {
    /// The program.
    pub program: &'a Path,
    /// The configuration file.
    pub file: &'a Path,
    /// Its contents.
    pub configuration: &'a Configuration,
}

/// Returns the service of each job, and the timers of those with a schedule.
pub(crate) fn units(facts: &Facts<'_>) -> Vec<Unit> {
    let jobs = facts.configuration.jobs();
    let of_job = |job: &Job<'_>| {
        let service = Unit {
            name: service_of(job),
            text: service(facts, job),
        };
        let timer = timer(facts, job).map(|text| Unit {
            name: format!("{PREFIX}{}.timer", job.name),
            text,
        });
        std::iter::once(service).chain(timer).collect::<Vec<_>>()
    };
    jobs.iter().flat_map(of_job).collect()
}

/// Returns the name of a job's service.
pub fn service_of(job: &Job<'_>) -> String {
    format!("{PREFIX}{}.service", job.name)
}

fn head(facts: &Facts<'_>, job: &Job<'_>) -> String {
    let file = facts.file.display();
    let what = job.describe().replace('%', "%%").replace(['\n', '\\'], " ");
    format!(
        "{MARKER} from {file}, which the next setup reads again.\n\
         # For changes of your own: systemctl edit.\n\
         [Unit]\n\
         Description=Quintet: {what}\n\
         Documentation=man:quintet-run(1)\n"
    )
}

fn timer(facts: &Facts<'_>, job: &Job<'_>) -> Option<String> {
    let when = job.when?;
    let lines = job.timer_lines().join("\n");
    let delay_s = (when.period_s() / DELAYS_A_PERIOD).min(DELAY_S_MAX);
    let head = head(facts, job);
    // Persistent: a run that was missed while the machine was off follows at its start.
    Some(format!(
        "{head}\n[Timer]\n{lines}\nRandomizedDelaySec={delay_s}s\nPersistent=yes\n\n\
         [Install]\nWantedBy=timers.target\n"
    ))
}

fn service(facts: &Facts<'_>, job: &Job<'_>) -> String {
    let pool = quoted(facts.configuration.pool.path.value.as_path());
    let head = head(facts, job);
    let command = command(facts, job);
    let capabilities = capabilities(job);
    let mut lines = vec![format!("ExecStart={command}")];
    if matches!(job.task, Task::Watch) {
        lines.push(
            "# A problem lasts, and somebody was notified. That is no failure of the unit.".into(),
        );
        lines.push("SuccessExitStatus=3".into());
    }
    lines.extend([
        "User=quintet".into(),
        "UMask=0077".into(),
        "Environment=QUINTET_CACHE_DIR=/var/cache/quintet/quintet".into(),
        "CacheDirectory=quintet".into(),
        "CacheDirectoryMode=0700".into(),
        format!("AmbientCapabilities={capabilities}"),
        format!("CapabilityBoundingSet={capabilities}"),
    ]);
    // A directory that is missing is reported by the job, and its notification.
    lines.extend(written(facts, job).map(|path| format!("ReadWritePaths={path}")));
    lines.push(format!("RestrictAddressFamilies={}", families(facts, job)));
    let own = lines.join("\n");
    let shared = HARDENING;
    format!("{head}RequiresMountsFor={pool}\n\n[Service]\nType=oneshot\n{own}\n{shared}")
}

/// As in the shipped units.
const HARDENING: &str = "\
Nice=10
IOSchedulingClass=idle
# Keys are in its memory.
LimitCORE=0
NoNewPrivileges=yes
ProtectSystem=strict
DevicePolicy=closed
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=ENOSYS
";

/// Returns the command. A job that writes waits for the end of another: a pool has one writer.
fn command(facts: &Facts<'_>, job: &Job<'_>) -> String {
    let turn = match job.task {
        Task::Watch => "",
        _ => "/usr/bin/flock --no-fork /var/cache/quintet/run.lock ",
    };
    let program = quoted(facts.program).replace('$', "$$");
    let file = match facts.file == Path::new(crate::configured::DEFAULT) {
        true => String::new(),
        false => format!(" --config {}", quoted(facts.file).replace('$', "$$")),
    };
    format!("{turn}{program} run{file} {}", job.name)
}

/// `DAC_READ_SEARCH` opens files of others, `FOWNER` leaves no access time, and `DAC_OVERRIDE`
/// makes a snapshot beside them.
fn capabilities(job: &Job<'_>) -> &'static str {
    match job.task {
        Task::Backup(source) => match &source.kind {
            SourceKind::Tree(tree) if tree.snapshot => {
                "CAP_DAC_READ_SEARCH CAP_FOWNER CAP_DAC_OVERRIDE"
            }
            SourceKind::Tree(_) => "CAP_DAC_READ_SEARCH CAP_FOWNER",
            SourceKind::Stream(_) => "",
        },
        _ => "",
    }
}

/// Returns what the job may write to, ready for a unit.
fn written<'a>(facts: &Facts<'a>, job: &Job<'a>) -> impl Iterator<Item = String> + 'a {
    let mut paths = vec![facts.configuration.pool.path.value.as_path()];
    match job.task {
        Task::Copy(copy) => paths.push(&copy.to.value),
        Task::Backup(source) => {
            if let SourceKind::Tree(tree) = &source.kind
                && tree.snapshot
            {
                paths.extend(tree.paths.value.iter().map(PathBuf::as_path));
            }
        }
        _ => {}
    }
    let paths = paths.into_iter();
    paths.map(|path| quoted(&PathBuf::from(format!("-{}", path.display()))))
}

/// Only notifications and commands of the user need a network.
fn families(facts: &Facts<'_>, job: &Job<'_>) -> &'static str {
    let notifies = facts.configuration.notify.is_some();
    let runs_command = matches!(job.task, Task::Backup(source)
        if matches!(source.kind, SourceKind::Stream(_)));
    match notifies || runs_command {
        true => "AF_UNIX AF_INET AF_INET6",
        false => "AF_UNIX",
    }
}

/// Writes a path as a word of a unit.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let text = text.replace('%', "%%");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,=%".contains(c);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
[pool]
path = "/srv/the pool"
[sources.home]
paths = ["/home"]
when = "every 15m"
[sources.db]
command = ["pg_dump", "db"]
[copies.away]
to = "/mnt/100%"
when = "sun 04:00"
[check]
"#;

    fn written_for(file: &str) -> Vec<Unit> {
        let configuration = Configuration::parse(file).unwrap();
        let facts = Facts {
            program: Path::new("/usr/bin/quintet"),
            file: Path::new(crate::configured::DEFAULT),
            configuration: &configuration,
        };
        units(&facts)
    }

    fn unit(file: &str, name: &str) -> String {
        let units = written_for(file).into_iter();
        let unit = units
            .into_iter()
            .find(|unit| unit.name == format!("{PREFIX}{name}"));
        unit.unwrap().text
    }

    #[test]
    fn each_job_has_a_service_and_those_with_a_schedule_a_timer() {
        let names: Vec<_> = written_for(FILE)
            .into_iter()
            .map(|unit| unit.name)
            .collect();
        let expected = [
            "home.service",
            "home.timer",
            "db.service",
            "copy:away.service",
            "copy:away.timer",
            "check.service",
            "watch.service",
        ];
        assert_eq!(names, expected.map(|name| format!("{PREFIX}{name}")));
        assert!(
            written_for(FILE)
                .iter()
                .all(|unit| unit.text.starts_with(MARKER))
        );
        let timer = unit(FILE, "home.timer");
        assert!(
            timer.contains("RandomizedDelaySec=90s\nPersistent=yes\n"),
            "{timer}"
        );
        assert!(unit(FILE, "copy:away.timer").contains("RandomizedDelaySec=1800s"));
    }

    #[test]
    fn a_service_may_do_what_its_job_needs() {
        let home = unit(FILE, "home.service");
        assert!(
            home.contains("ReadWritePaths=\"-/srv/the pool\"\n"),
            "{home}"
        );
        assert!(home.contains("AmbientCapabilities=CAP_DAC_READ_SEARCH CAP_FOWNER\n"));
        assert!(home.contains("RestrictAddressFamilies=AF_UNIX\n"));
        assert!(
            home.contains(
                "flock --no-fork /var/cache/quintet/run.lock /usr/bin/quintet run home\n"
            )
        );
        let copy = unit(FILE, "copy:away.service");
        assert!(copy.contains("ReadWritePaths=-/mnt/100%%\n"), "{copy}");
        assert!(copy.contains("CapabilityBoundingSet=\n"));
        assert!(unit(FILE, "db.service").contains("AF_INET"));
        let watch = unit(FILE, "watch.service");
        assert!(
            watch.contains("ExecStart=/usr/bin/quintet run watch\n"),
            "{watch}"
        );
        assert!(watch.contains("SuccessExitStatus=3\n"));
        let with = format!("{FILE}[notify]\nurl = \"https://ntfy.sh/x\"\n");
        assert!(unit(&with, "check.service").contains("AF_INET6"));
        assert!(unit(&with, "watch.timer").contains("OnCalendar=hourly"));
    }
}
