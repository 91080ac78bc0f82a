//! Runs the program of `[notify]`. [`super::deliver`] calls this.
//!
//! Invariant: it gets 30 seconds. Its output goes nowhere, except for the cause of a failure.

use super::Notification;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;
use std::time::{Duration, Instant};
use terminal::command_context::CommandContext;
use terminal::outside_program::OutsideProgram;

const LIMIT: Duration = Duration::from_secs(30);

/// Runs it. Returns the answer, or the reason of the failure.
pub fn run(
    context: &CommandContext,
    command: &[String],
    notification: &Notification,
) -> Result<String, String> {
    run_within(context, command, notification, LIMIT)
}

fn run_within(
    context: &CommandContext,
    command: &[String],
    notification: &Notification,
    limit: Duration,
) -> Result<String, String> {
    let Some((name, arguments)) = command.split_first() else {
        return Err("no program is named".to_owned());
    };
    let cannot = |e: std::io::Error| format!("cannot run it: {}", units::reason(&e));
    let mut prepared = context.program(OsStr::new(name)).map_err(cannot)?;
    prepared
        .args(arguments)
        .env("QUINTET_EVENT", notification.subject.word())
        .env("QUINTET_JOB", &notification.job)
        .env("QUINTET_MESSAGE", notification.short_text())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        // So that programs which it started can be killed with it.
        .process_group(0);
    let started = Instant::now();
    let mut program = OutsideProgram::start(context, &mut prepared, name, false).map_err(cannot)?;
    let group = i32::try_from(program.child.id())
        .ok()
        .and_then(Pid::from_raw);
    if let Some(mut input) = program.child.stdin.take() {
        // A program that does not read it is content with the variables.
        let _ = writeln!(input, "{}", notification.json());
    }
    let ended = program.wait_within(context, limit);
    let ended = ended.map_err(|e| terminal::error::with_causes(&e))?;
    let is_killed = ended.status.signal() == Some(Signal::KILL.as_raw());
    if is_killed && started.elapsed() >= limit {
        if let Some(group) = group {
            // None of them may be left.
            let _ = kill_process_group(group, Signal::KILL);
        }
        return Err(format!("it was killed after {} s", limit.as_secs()));
    }
    match ended.success() {
        Ok(_) => Ok("exit status 0".to_owned()),
        Err(failed) => Err(failed.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Subject;
    use super::*;
    use configuration::Event;
    use rustix::event::PollFlags;
    use rustix::process::{PidfdFlags, pidfd_open};
    use terminal::interrupt::Interrupt;
    use units::UnixNanos;

    fn run_script(script: &str, limit: Duration) -> Result<String, String> {
        let notification = Notification {
            subject: Subject::Problem(Event::Space),
            job: "watch".to_owned(),
            code: None,
            text: "nearly full".to_owned(),
            pool: "/p".to_owned(),
            host: "h".to_owned(),
            time: UnixNanos(0),
        };
        let context = CommandContext::detached().unwrap();
        let command = ["/bin/sh", "-c", script].map(str::to_owned);
        run_within(&context, &command, &notification, limit)
    }

    #[test]
    fn a_program_gets_the_event_twice() {
        let minute = Duration::from_secs(60);
        let script = "read line; case $line in *'\"event\":\"space\"'*) ;; *) exit 4 ;; esac
            [ \"$QUINTET_EVENT $QUINTET_JOB $QUINTET_MESSAGE\" = 'space watch nearly full' ]";
        assert_eq!(run_script(script, minute), Ok("exit status 0".to_owned()));
        let failed = run_script("echo no route >&2; exit 7", minute).unwrap_err();
        assert_eq!(failed, "/bin/sh failed (exit status: 7): no route");
        assert_eq!(
            run_script("exec <&-; exit 0", minute),
            Ok("exit status 0".to_owned())
        );
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("pid");
        let script = format!(
            "sleep 1000 & echo $! >{0}.new; mv {0}.new {0}; wait",
            file.display()
        );
        let killed = run_script(&script, Duration::from_secs(2)).unwrap_err();
        assert_eq!(killed, "it was killed after 2 s");
        let child = std::fs::read_to_string(&file).unwrap();
        let child = Pid::from_raw(child.trim().parse().unwrap()).unwrap();
        let Ok(ended) = pidfd_open(child, PidfdFlags::empty()) else {
            return;
        };
        let minute = Duration::from_secs(60);
        let has_ended = Interrupt::detached().wait_for_within(&ended, PollFlags::IN, minute);
        assert!(has_ended.unwrap(), "the child of the program runs on");
    }
}
