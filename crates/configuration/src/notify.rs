//! `[notify]`: where notifications go, and of which events. [`super::Configuration`] reads it.
//!
//! Invariant: at least one channel. A URL is one of HTTP.

use crate::Located;
use crate::section::{Notes, Section};

/// A problem that can be notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A job failed, or some files could not be read.
    Failure,
    /// Stored data is damaged.
    Damage,
    /// The pool's file system is nearly full or read-only.
    Space,
    /// A source has had no backup for too long.
    Silence,
}

impl Event {
    /// All events.
    pub const ALL: [Self; 4] = [Self::Failure, Self::Damage, Self::Space, Self::Silence];

    /// Returns its word in the file and in notifications.
    pub fn word(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Damage => "damage",
            Self::Space => "space",
            Self::Silence => "silence",
        }
    }
}

/// The request that the URL gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// The event as a JSON object.
    #[default]
    Json,
    /// A message of ntfy: the text as body, title and priority as headers.
    Ntfy,
    /// A ping of healthchecks: `URL` after success, `URL/fail` after a problem.
    Healthchecks,
}

const FORMATS: [(&str, Format); 3] = [
    ("json", Format::Json),
    ("ntfy", Format::Ntfy),
    ("healthchecks", Format::Healthchecks),
];

/// The channels.
#[derive(Clone, Debug)]
pub struct Notify {
    /// A program that gets the event.
    pub command: Option<Located<Vec<String>>>,
    /// A URL that gets it.
    pub url: Option<Located<String>>,
    /// The request that it gets.
    pub format: Format,
    /// The events that count.
    pub on: Vec<Event>,
}

impl Notify {
    pub(crate) fn read(mut section: Section<'_>, notes: &mut Notes) -> Option<Self> {
        let before = notes.mistakes.len();
        let command = section.command(notes, "command");
        let url = section.parsed(notes, "url", url);
        let format = section.parsed(notes, "format", |text| {
            let known = FORMATS.iter().find(|(word, _)| *word == text);
            let refuse = || format!("{text:?} is no format; write json, ntfy or healthchecks");
            known.map(|(_, format)| *format).ok_or_else(refuse)
        });
        let on = section.texts(notes, "on");
        let (line, name) = (section.line, section.name.clone());
        let on = on.map(|on| events(&section, notes, &on));
        section.finish(notes);
        if command.is_none() && url.is_none() && notes.mistakes.len() == before {
            notes.add(line, name, "no channel is set; give command or url");
        } else if let (Some(format), None) = (&format, &url) {
            notes.add(
                format.line,
                "notify.format",
                "it needs url; add that, or remove format",
            );
        }
        Some(Self {
            command,
            url,
            format: format.map(|format| format.value).unwrap_or_default(),
            on: on.unwrap_or_else(|| Event::ALL.to_vec()),
        })
    }
}

fn events(section: &Section<'_>, notes: &mut Notes, on: &Located<Vec<String>>) -> Vec<Event> {
    let mut events = Vec::new();
    for text in &on.value {
        match Event::ALL.iter().find(|event| event.word() == text) {
            Some(event) => events.push(*event),
            None => {
                let words = Event::ALL.map(Event::word).join(", ");
                let why = format!("{text:?} is no event; known are {words}");
                notes.add(on.line, section.key("on"), why);
            }
        }
    }
    if on.value.is_empty() {
        let why = "the list is empty; name events, or remove [notify]";
        notes.add(on.line, section.key("on"), why);
    }
    events
}

fn url(text: &str) -> Result<String, String> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let has_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    let is_plain = text.bytes().all(|b| b.is_ascii_graphic());
    match has_host && is_plain {
        true => Ok(text.to_owned()),
        false => Err("it is not a URL of HTTP; write https://HOST/PATH".to_owned()),
    }
}
