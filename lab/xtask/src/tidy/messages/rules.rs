//! Rules for one message. [`super::check`] calls this.
//!
//! Invariant: placeholders are not words; a rule looks at the text that is fixed.

use super::super::Finding;
use super::super::prose::{self, FIRST_WORDS};
use super::Message;

/// Longest sentence, characters.
const SENTENCE_MAX: usize = 200;

/// Words and phrases that a message does not use, beside those of the glossary, and what to write.
const UNPLAIN: &[(&str, &str)] = &[
    ("whom", "name the object"),
    ("nobody", "name the object"),
    ("anew", "again"),
    ("gives back", "frees"),
    ("give back", "free"),
    ("gave back", "freed"),
    ("takes back", "restores"),
    ("took back", "restored"),
    ("taken back", "restored"),
    ("passed the journal by", "bypassed the journal"),
    ("to be had", "say where it is missing"),
    ("lie in pieces", "are fragmented"),
    ("written down", "recorded"),
    ("asked for otherwise", "say which settings differ"),
    ("here and now", "say what the command does"),
    ("makes up for", "restores"),
];

/// Returns the violations of a message.
pub fn check(message: &Message) -> Vec<Finding> {
    let text = &message.text;
    let mut findings = Vec::new();
    let mut refuse = |what: String| {
        findings.push(Finding::refuse(&message.path, message.line, what));
    };
    for (word, term) in prose::banned(text) {
        refuse(format!(
            "{word:?} in a message: write {term} (docs/glossary.md)"
        ));
    }
    let lower = text.to_lowercase();
    for (phrase, instead) in UNPLAIN {
        if prose::contains_word(&lower, phrase) {
            refuse(format!("{phrase:?} in a message: {instead}"));
        }
    }
    let first = text.split_whitespace().next().unwrap_or_default();
    if FIRST_WORDS.contains(&first) {
        refuse(format!(
            "a message begins with {first:?}: write subject, verb, object"
        ));
    }
    if let Some(long) = sentences(text).find(|s| s.chars().count() > SENTENCE_MAX) {
        let (start, _) = long.split_at_checked(30).unwrap_or((long, ""));
        refuse(format!(
            "a sentence of more than {SENTENCE_MAX} characters ({start:?}...): one fact each"
        ));
    }
    if text.matches("error:").count() > 1 {
        refuse("\"error:\" twice in a message: the program says it once".to_owned());
    }
    if let Some(part) = doubled(text) {
        refuse(format!("{part:?} twice in a message: say each cause once"));
    }
    findings
}

/// Counts the words of a text, without placeholders.
pub fn words(text: &str) -> usize {
    let is_word = |w: &&str| {
        let trimmed = w.trim_matches(|c: char| !c.is_alphanumeric());
        !w.contains(['{', '}'])
            && trimmed
                .chars()
                .all(|c| c.is_alphabetic() || c == '-' || c == '\'')
            && !trimmed.is_empty()
    };
    text.split_whitespace().filter(is_word).count()
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split(['.', ';', '\n', '?'])
}

/// Returns a part between colons that follows itself, as in `open: missing: missing`.
fn doubled(text: &str) -> Option<&str> {
    let parts: Vec<&str> = text.split(": ").map(str::trim).collect();
    let pairs = parts.iter().zip(parts.iter().skip(1));
    let twice = pairs.filter(|(a, b)| a == b).map(|(a, _)| *a);
    twice
        .filter(|part| !part.is_empty())
        .find(|part| *part != "{}")
}
