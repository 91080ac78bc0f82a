//! Notifications of problems: to a program, and to a URL. `run` and `notify` call this.
//!
//! Invariant: a delivery takes half a minute at most and never fails a job: it only says what could
//! not be delivered. Parts of a URL that may be secret are in no message.
#![forbid(unsafe_code)]

mod program;
mod url;

pub use url::host_of;

use configuration::{Event, Format, Notify};
use terminal::calendar;
use terminal::command_context::CommandContext;
use terminal::json::Object;
use units::UnixNanos;

/// Longest text in a notification, bytes: it fits into a pipe, so no writer waits.
const TEXT_BYTES_MAX: usize = 4000;

/// The subject of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A problem.
    Problem(Event),
    /// All jobs of a run succeeded. Only healthchecks hears of it.
    Success,
    /// The user tries the channels.
    Test,
}

impl Subject {
    /// Returns its word in notifications.
    pub fn word(self) -> &'static str {
        match self {
            Self::Problem(event) => event.word(),
            Self::Success => "success",
            Self::Test => "test",
        }
    }
}

/// A notification.
#[derive(Clone, Debug)]
pub struct Notification {
    /// The subject.
    pub subject: Subject,
    /// The job, or the source that is silent.
    pub job: String,
    /// Exit code of the job, if one ended.
    pub code: Option<u8>,
    /// The problem, in words.
    pub text: String,
    /// The pool's directory.
    pub pool: String,
    /// This machine.
    pub host: String,
    /// The present time.
    pub time: UnixNanos,
}

impl Notification {
    /// Returns the event as a JSON object.
    fn json(&self) -> String {
        let object = Object::message("notification")
            .text("event", self.subject.word())
            .text("job", &self.job)
            .text("host", &self.host)
            .text("pool", &self.pool)
            .text("time", &calendar::rfc3339(self.time));
        let object = match self.code {
            Some(code) => object.integer("code", code),
            None => object,
        };
        object.text("message", self.short_text()).finish()
    }

    /// Returns its title.
    fn title(&self) -> String {
        format!(
            "quintet on {}: {} ({})",
            self.host,
            self.subject.word(),
            self.job
        )
    }

    /// Returns the text, cut to the longest that is sent.
    fn short_text(&self) -> &str {
        let end = self.text.floor_char_boundary(TEXT_BYTES_MAX);
        self.text.get(..end).unwrap_or_default()
    }
}

/// The outcome of a notification on one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The channel.
    pub channel: String,
    /// The answer, or the reason why there is none.
    pub outcome: Result<String, String>,
}

/// Delivers to all channels at the same time. Returns what became of it; nothing if the file does
/// not want to hear of this event.
pub fn deliver(
    context: &CommandContext,
    notify: &Notify,
    notification: &Notification,
) -> Vec<Delivery> {
    let (to_program, to_url) = match notification.subject {
        Subject::Problem(event) => {
            let wanted = notify.on.contains(&event);
            (wanted, wanted)
        }
        Subject::Success => (false, notify.format == Format::Healthchecks),
        Subject::Test => (true, true),
    };
    let command = notify.command.as_ref().filter(|_| to_program);
    let url = notify.url.as_ref().filter(|_| to_url);
    std::thread::scope(|scope| {
        let posted = url.map(|url| {
            let environment = &context.environment;
            scope.spawn(move || Delivery {
                channel: host_of(&url.value),
                outcome: url::post(environment, &url.value, notify.format, notification),
            })
        });
        let ran = command.map(|command| Delivery {
            channel: command.value.first().cloned().unwrap_or_default(),
            outcome: program::run(context, &command.value, notification),
        });
        let posted = posted.and_then(|posted| posted.join().ok());
        ran.into_iter().chain(posted).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_is_one_json_object_of_bounded_size() {
        let mut notification = Notification {
            subject: Subject::Problem(Event::Failure),
            job: "db".to_owned(),
            code: Some(3),
            text: "it \"failed\"".to_owned(),
            pool: "/srv/pool".to_owned(),
            host: "web1".to_owned(),
            time: UnixNanos(0),
        };
        assert_eq!(
            notification.json(),
            "{\"message_type\":\"notification\",\"event\":\"failure\",\"job\":\"db\",\
             \"host\":\"web1\",\"pool\":\"/srv/pool\",\"time\":\"1970-01-01T00:00:00Z\",\
             \"code\":3,\"message\":\"it \\\"failed\\\"\"}"
        );
        assert_eq!(notification.title(), "quintet on web1: failure (db)");
        notification.text = "\u{e4}".repeat(5000);
        assert_eq!(notification.short_text().len(), TEXT_BYTES_MAX);
        notification.text.insert(0, 'a');
        assert_eq!(notification.short_text().len(), TEXT_BYTES_MAX - 1);
    }
}
