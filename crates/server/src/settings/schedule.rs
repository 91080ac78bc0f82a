//! Settings of automatic maintenance, as the user sets and sees them: `KEY=VALUE`.
//! [`super::shares`] calls this.
//!
//! Invariant: as in [`super::shares`], which shows these keys beside its own.

use super::number::number;
use maintenance::CollectLimits;
use terminal::sizes;

/// Settings of the maintenance that a server begins by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskSchedule {
    /// The server runs gc by itself.
    pub collects: bool,
    /// Limits at which gc begins.
    pub limits: CollectLimits,
    /// The server scrubs by itself.
    pub scrubs: bool,
    /// Percentage of the objects' bytes that the server may copy in a week, by itself, into small
    /// regions: hot chunks. 0: it copies none.
    pub hot_chunks_percent: u8,
}

/// Default of [`TaskSchedule::hot_chunks_percent`]: the part of an object that is kept in small
/// regions, once a week.
const HOT_CHUNKS_PERCENT: u8 = 3;
/// Maximum of it.
const HOT_CHUNKS_PERCENT_MAX: u64 = 20;

impl Default for TaskSchedule {
    fn default() -> Self {
        Self {
            collects: true,
            limits: CollectLimits::default(),
            scrubs: true,
            hot_chunks_percent: HOT_CHUNKS_PERCENT,
        }
    }
}

impl TaskSchedule {
    /// Sets the value of a key. `None` if the key is not one of these.
    pub fn set(&mut self, key: &str, value: &str) -> Option<Result<(), String>> {
        let limits = &mut self.limits;
        Some(match key {
            "gc" => switch(value).map(|is_on| self.collects = is_on),
            "scrub" => switch(value).map(|is_on| self.scrubs = is_on),
            "hot-chunks" => match value {
                "off" => Ok(0),
                _ => number(value, 1, HOT_CHUNKS_PERCENT_MAX).map_err(|e| format!("{e}, or off")),
            }
            .map(|percent| self.hot_chunks_percent = percent),
            "gc-free" => number(value, 0, 50).map(|percent| limits.free_percent = percent),
            "gc-free-max" => sizes::parse(value)
                .map(|bytes| limits.free_bytes_max = bytes)
                .map_err(|e| e.to_string()),
            "gc-unused" => number(value, 1, 100).map(|percent| limits.unused_percent = percent),
            _ => return None,
        })
    }

    /// Returns all keys and their values.
    pub fn entries(&self) -> [(String, String); 6] {
        let CollectLimits {
            free_percent,
            free_bytes_max,
            unused_percent,
        } = self.limits;
        [
            ("gc", word(self.collects).to_owned()),
            ("gc-free", free_percent.to_string()),
            ("gc-free-max", exact(free_bytes_max)),
            ("gc-unused", unused_percent.to_string()),
            ("scrub", word(self.scrubs).to_owned()),
            (
                "hot-chunks",
                match self.hot_chunks_percent {
                    0 => "off".to_owned(),
                    percent => percent.to_string(),
                },
            ),
        ]
        .map(|(key, value)| (key.to_owned(), value))
    }
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "auto" => Ok(true),
        "off" => Ok(false),
        _ => Err("the value is auto or off".to_owned()),
    }
}

const fn word(is_on: bool) -> &'static str {
    if is_on { "auto" } else { "off" }
}

/// Formats a size so that parsing gives the same bytes.
fn exact(bytes: u64) -> String {
    match bytes {
        _ if bytes > 0 && bytes.is_multiple_of(1 << 30) => format!("{}G", bytes >> 30),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ => bytes.to_string(),
    }
}
