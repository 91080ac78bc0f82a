//! How long jobs took last time, so that the longest begin first.

use super::job::Job;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Seconds by the name of the job.
pub struct Times(BTreeMap<String, f64>);

impl Times {
    /// Loads what a run left at `path`. On a fresh clone, `longest` stands in: names, longest
    /// first. Both may be absent.
    pub fn load(path: &Path, longest: &Path) -> Self {
        let text = |path| std::fs::read_to_string(path).unwrap_or_default();
        let order = text(longest);
        let names: Vec<_> = order
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        let guessed = names
            .iter()
            .rev()
            .zip(0u32..)
            .map(|(name, place)| (name.to_string(), 5.0 + f64::from(place)));
        let mut all: BTreeMap<_, _> = guessed.collect();
        let known = text(path);
        all.extend(known.lines().filter_map(|line| {
            let (seconds, name) = line.split_once(' ')?;
            Some((name.to_owned(), seconds.parse().ok()?))
        }));
        Self(all)
    }

    /// Puts the longest first. Jobs that nobody knows come after those of some seconds.
    pub fn sort(&self, jobs: &mut [Job]) {
        let seconds = |job: &Job| self.0.get(&job.name).copied().unwrap_or(2.0);
        jobs.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    }

    /// Notes how long a job took.
    pub fn note(&mut self, name: &str, seconds: f64) {
        self.0.insert(name.to_owned(), seconds);
    }

    /// Stores all of it.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let lines = self
            .0
            .iter()
            .map(|(name, seconds)| format!("{seconds:.2} {name}\n"));
        std::fs::write(path, lines.collect::<String>())
    }
}
