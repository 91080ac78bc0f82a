//! Writes, removes and starts the units. [`crate::apply`] calls this.
//!
//! Invariant: a unit without setup's mark is never touched. Without a running systemd units are
//! enabled for the next start of the machine.

use crate::steps::{Owner, Steps};
use crate::units::{MARKER, PREFIX, Unit};
use std::path::{Path, PathBuf};

const DIRECTORY: &str = "/etc/systemd/system";
const RUNS: &str = "/run/systemd/system";

/// Makes the units of setup these.
pub(crate) fn install(
    steps: &mut Steps<'_>,
    wanted: &[Unit],
    no_start: bool,
) -> anyhow::Result<()> {
    let before = steps.steps;
    let runs = Path::new(RUNS).is_dir();
    for path in written()? {
        if !wanted.iter().any(|unit| path.ends_with(&unit.name)) {
            remove(steps, &path, runs)?;
        }
    }
    let mut changed = Vec::new();
    for unit in wanted {
        let path = Path::new(DIRECTORY).join(&unit.name);
        let found = std::fs::read_to_string(&path).ok();
        match found {
            Some(found) if found == unit.text => continue,
            Some(found) if !found.starts_with(MARKER) => {
                let place = path.display();
                let console = &steps.shell.console;
                console.warn(format_args!("{place} is not of setup and stays as it is"));
                continue;
            }
            _ => changed.push(&unit.name),
        }
        steps.step(&format!("write {}", path.display()), |steps| {
            std::fs::create_dir_all(DIRECTORY)?;
            steps.write(&path, unit.text.as_bytes(), Owner::Root, 0o644)
        })?;
    }
    if steps.steps > before && runs {
        steps.step("reload systemd", |steps| {
            systemctl(steps, &["daemon-reload"])
        })?;
    }
    let timers = wanted.iter().map(|unit| &unit.name);
    let timers: Vec<_> = timers.filter(|name| name.ends_with(".timer")).collect();
    if no_start {
        if !timers.is_empty() {
            let console = &steps.shell.console;
            console.line("the timers are not enabled (--no-start)")?;
        }
        return Ok(());
    }
    for timer in &timers {
        start(steps, timer, changed.contains(timer), runs)?;
    }
    if !runs && !timers.is_empty() {
        let console = &steps.shell.console;
        console.line("systemd is not running: the timers start with it")?;
    }
    Ok(())
}

/// Enables and starts a timer; one that runs as it was before is started again.
fn start(steps: &mut Steps<'_>, timer: &str, is_changed: bool, runs: bool) -> anyhow::Result<()> {
    if !is(steps, "is-enabled", timer) {
        steps.step(&format!("enable {timer}"), |steps| {
            systemctl(steps, &["--quiet", "enable", timer])
        })?;
    }
    if runs && (is_changed || !is(steps, "is-active", timer)) {
        steps.step(&format!("start {timer}"), |steps| {
            systemctl(steps, &["restart", timer])
        })?;
    }
    Ok(())
}

fn remove(steps: &mut Steps<'_>, path: &Path, runs: bool) -> anyhow::Result<()> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    steps.step(&format!("remove {}", path.display()), |steps| {
        if name.ends_with(".timer") {
            let command: &[&str] = match runs {
                true => &["--quiet", "disable", "--now", &name],
                false => &["--quiet", "disable", &name],
            };
            systemctl(steps, command)?;
        }
        Ok(std::fs::remove_file(path)?)
    })
}

/// Returns the paths of the units that setup wrote.
fn written() -> anyhow::Result<Vec<PathBuf>> {
    let Ok(entries) = std::fs::read_dir(DIRECTORY) else {
        return Ok(Vec::new());
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry?;
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && std::fs::read_to_string(entry.path()).is_ok_and(|text| text.starts_with(MARKER));
        if is_ours {
            paths.push(entry.path());
        }
    }
    // Timers before the services that they start.
    paths.sort_by_key(|path| (path.extension().is_none_or(|e| e != "timer"), path.clone()));
    Ok(paths)
}

fn is(steps: &Steps<'_>, question: &str, unit: &str) -> bool {
    let mut systemctl = steps.program("systemctl");
    systemctl.args(["--quiet", question, unit]);
    systemctl
        .output()
        .is_ok_and(|output| output.status.success())
}

fn systemctl(steps: &Steps<'_>, arguments: &[&str]) -> anyhow::Result<()> {
    let mut systemctl = steps.program("systemctl");
    systemctl.args(arguments);
    Steps::call(systemctl)
}
