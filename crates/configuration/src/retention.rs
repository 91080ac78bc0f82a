//! `[retention]`: the rules of `forget`. [`super::Configuration`] reads it.
//!
//! Invariant: at least one rule.

use crate::section::{Notes, Section};
use crate::when::When;
use terminal::calendar::Within;
use toml::de::DeValue;

/// Rules that count snapshots.
const COUNTS: [&str; 6] = [
    "keep-last",
    "keep-hourly",
    "keep-daily",
    "keep-weekly",
    "keep-monthly",
    "keep-yearly",
];
const WITHIN: &str = "keep-within";

/// The rules.
#[derive(Clone, Debug)]
pub struct Retention {
    /// Options of `forget` without dashes, and their values.
    pub rules: Vec<(&'static str, String)>,
    /// Schedule.
    pub when: Option<When>,
}

impl Retention {
    pub(crate) fn read(mut section: Section<'_>, notes: &mut Notes) -> Option<Self> {
        let before = notes.mistakes.len();
        let mut rules = Vec::new();
        for key in COUNTS {
            let given = section.read(notes, key, count);
            rules.extend(given.map(|given| (key, given.value)));
        }
        let within = section.parsed(notes, WITHIN, |text| {
            Within::parse(text).map_err(|e| e.to_string())?;
            Ok(text.to_owned())
        });
        rules.extend(within.map(|within| (WITHIN, within.value)));
        let when = section.when(notes);
        let (line, name) = (section.line, section.name.clone());
        section.finish(notes);
        if rules.is_empty() && notes.mistakes.len() == before {
            let why = "no rule keeps a snapshot; give one, such as keep-daily = 7";
            notes.add(line, name, why);
        }
        Some(Self { rules, when })
    }
}

fn count(value: &DeValue<'_>) -> Result<String, String> {
    let refuse = || "expected a number from 1 up, or \"unlimited\"".to_owned();
    match value {
        DeValue::Integer(number) => {
            let parsed = u32::from_str_radix(number.as_str(), number.radix()).ok();
            match parsed {
                Some(0) => Err("0 keeps no snapshot; remove the key".to_owned()),
                Some(number) => Ok(number.to_string()),
                None => Err(refuse()),
            }
        }
        DeValue::String(text) if text == "unlimited" => Ok(text.to_string()),
        _ => Err(refuse()),
    }
}
