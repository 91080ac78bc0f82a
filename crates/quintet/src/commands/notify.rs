//! `notify --test`: tries each channel of the configuration file. [`super::run`] calls this.
//!
//! Invariant: each channel is tried, whatever became of the others.

use super::configuration_file::ConfigurationFile;
use super::invocation::Invocation;
use anyhow::bail;
use command_line::NotifyArgs;
use media::{Clock, SystemClock};
use notifications::{Delivery, Notification, Subject, deliver};
use std::path::Path;
use terminal::console::tamed;
use terminal::exit::Exit;
use terminal::json::Object;
use units::count;

pub(super) fn run(invocation: &Invocation, args: &NotifyArgs) -> anyhow::Result<Exit> {
    let file = ConfigurationFile::read(invocation, &args.file)?;
    let Some(notify) = &file.configuration.notify else {
        bail!("{} has no section [notify]; add one", file.path.display());
    };
    let pool = &file.configuration.pool.path.value;
    let test = notification(
        invocation,
        pool,
        Subject::Test,
        "notify",
        None,
        "This is a test. Nothing is wrong.",
    );
    let deliveries = deliver(&invocation.context, notify, &test);
    for Delivery { channel, outcome } in &deliveries {
        let (is_delivered, answer) = match outcome {
            Ok(answer) => (true, answer),
            Err(why) => (false, why),
        };
        let word = if is_delivered {
            "delivered"
        } else {
            "not delivered"
        };
        invocation
            .console
            .line(format!("{channel}: {word}: {answer}"))?;
        invocation.console.message(
            Object::message("delivery")
                .text("channel", channel)
                .boolean("delivered", is_delivered)
                .text("answer", answer),
        )?;
    }
    let failed = deliveries.iter().filter(|d| d.outcome.is_err()).count();
    if failed > 0 {
        let failed = count(failed as u64, "channel");
        bail!(
            "{failed} did not accept the notification; correct [notify] in {}",
            file.path.display()
        );
    }
    Ok(Exit::Done)
}

/// Makes a notification of now and here.
pub(super) fn notification(
    invocation: &Invocation,
    pool: &Path,
    subject: Subject,
    job: &str,
    code: Option<u8>,
    text: &str,
) -> Notification {
    Notification {
        subject,
        job: job.to_owned(),
        code,
        // It may have names of files, and what other programs wrote.
        text: String::from_utf8_lossy(&tamed(text.as_bytes())).into_owned(),
        pool: pool.display().to_string(),
        host: invocation.host(None),
        time: SystemClock.now(),
    }
}
