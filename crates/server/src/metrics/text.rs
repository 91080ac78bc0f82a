//! The text format of Prometheus, version 0.0.4: samples by metric, each metric with its help and
//! type. `metrics` calls this.
//!
//! Invariant: samples of a metric stand together, in the place of the first one. Label values are
//! escaped.

use super::{Metric, MetricKind};
use std::fmt::{self, Write};

/// A sample's value.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// An integer.
    Integer(u64),
    /// A floating-point number.
    Number(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
        }
    }
}

/// The metrics so far, with their lines.
#[derive(Default)]
pub struct Text(Vec<(Metric, String)>);

impl Text {
    fn lines(&mut self, metric: Metric) -> &mut String {
        let at = self.0.iter().position(|(m, _)| m.name == metric.name);
        let at = at.unwrap_or_else(|| {
            self.0.push((metric, String::new()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// Adds a sample.
    pub fn sample(&mut self, metric: Metric, labels: &[(&str, &str)], value: impl Into<Value>) {
        line(self.lines(metric), metric.name, labels, None, value.into());
    }

    /// Adds a histogram: for each limit the number of values up to it, the sum of all values and
    /// their number.
    pub fn histogram(
        &mut self,
        metric: Metric,
        labels: &[(&str, &str)],
        buckets: &[(f64, u64)],
        sum: f64,
        count: u64,
    ) {
        let lines = self.lines(metric);
        let name = format!("{}_bucket", metric.name);
        for (limit, below) in buckets {
            let limit = limit.to_string();
            line(lines, &name, labels, Some(&limit), Value::Integer(*below));
        }
        line(lines, &name, labels, Some("+Inf"), count.into());
        line(
            lines,
            &format!("{}_sum", metric.name),
            labels,
            None,
            sum.into(),
        );
        line(
            lines,
            &format!("{}_count", metric.name),
            labels,
            None,
            count.into(),
        );
    }

    /// Returns the whole text.
    pub fn finish(self) -> String {
        let mut out = String::new();
        for (Metric { name, kind, help }, lines) in self.0 {
            let kind = match kind {
                MetricKind::Gauge => "gauge",
                MetricKind::Counter => "counter",
                MetricKind::Histogram => "histogram",
            };
            // Writing to a String does not fail.
            let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
        }
        out
    }
}

fn line(out: &mut String, name: &str, labels: &[(&str, &str)], limit: Option<&str>, value: Value) {
    let limit = limit.map(|limit| ("le", limit));
    let labels: Vec<String> = labels
        .iter()
        .copied()
        .chain(limit)
        .map(|(label, text)| format!("{label}=\"{}\"", escaped(text)))
        .collect();
    let labels = match labels.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", labels.join(",")),
    };
    let _ = writeln!(out, "{name}{labels} {value}");
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
