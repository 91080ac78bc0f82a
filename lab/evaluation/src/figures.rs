//! Tables in Markdown, plots in SVG, and the pages that contain them.
//!
//! The pages of this crate call this.
//! Invariant: text outside the marks of a page is kept; text between them comes from a run.

use std::fmt::Write;
use std::path::Path;

/// Lines of a page between which the generator writes. All other text is written by people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    begin: &'static str,
    end: &'static str,
}

/// Around the results of a full run, which takes minutes.
pub const FULL: Marks = Marks {
    begin: "<!-- evaluation: from here -->",
    end: "<!-- evaluation: to here -->",
};
/// Around the results of a short run, which a test repeats.
pub const SHORT: Marks = Marks {
    begin: "<!-- evaluation, short run: from here -->",
    end: "<!-- evaluation, short run: to here -->",
};

/// Around the results of the tasks that ship: the full run, and the short one.
pub const TASKS: Marks = Marks {
    begin: "<!-- evaluation, tasks that ship: from here -->",
    end: "<!-- evaluation, tasks that ship: to here -->",
};
/// See [`TASKS`].
pub const SHORT_TASKS: Marks = Marks {
    begin: "<!-- evaluation, tasks that ship, short run: from here -->",
    end: "<!-- evaluation, tasks that ship, short run: to here -->",
};

/// A table with a heading row.
pub struct Table {
    text: String,
}

impl Table {
    /// Creates a table with these columns.
    pub fn new<S: AsRef<str>>(columns: impl IntoIterator<Item = S>) -> Self {
        let mut table = Self {
            text: String::new(),
        };
        let columns: Vec<S> = columns.into_iter().collect();
        table.row(columns.iter());
        table.row(columns.iter().map(|_| "---"));
        table
    }

    /// Adds a row.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        for cell in cells {
            let _ = write!(self.text, "| {} ", cell.as_ref());
        }
        self.text.push_str("|\n");
    }

    /// Returns the table as Markdown.
    pub fn into_text(self) -> String {
        self.text
    }
}

/// A line of a plot.
pub struct Line {
    /// Name of the line.
    pub name: String,
    /// Any colour of SVG.
    pub colour: &'static str,
    /// True for a dashed line.
    pub is_dashed: bool,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
}

/// One panel of a plot.
pub struct Panel {
    /// Text above it.
    pub title: String,
    /// Text below it.
    pub x_name: String,
    /// Maximum of x.
    pub x_max: f64,
    /// Maximum of y.
    pub y_max: f64,
    /// Lines in it.
    pub lines: Vec<Line>,
}

const PANEL: (f64, f64) = (360.0, 250.0);
const FRAME: (f64, f64, f64, f64) = (46.0, 30.0, 300.0, 160.0);

/// Draws panels as SVG, two in a row.
pub fn plot(panels: &[Panel]) -> String {
    let rows = panels.len().div_ceil(2) as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" height=\"{:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        PANEL.0 * 2.0,
        PANEL.1 * rows
    );
    for (nth, panel) in panels.iter().enumerate() {
        let at = ((nth % 2) as f64 * PANEL.0, (nth / 2) as f64 * PANEL.1);
        draw(&mut svg, panel, at);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, panel: &Panel, at: (f64, f64)) {
    let (left, top, width, height) = FRAME;
    let (left, top) = (left + at.0, top + at.1);
    let x = |value: f64| left + value / panel.x_max * width;
    let y = |value: f64| top + height - (value / panel.y_max).min(1.0) * height;
    let _ = writeln!(
        svg,
        "<text x=\"{left:.0}\" y=\"{:.0}\" font-weight=\"bold\">{}</text>",
        top - 10.0,
        panel.title
    );
    for part in 0..=4 {
        let part = f64::from(part) / 4.0;
        let (value_x, value_y) = (panel.x_max * part, panel.y_max * part);
        let _ = writeln!(
            svg,
            "<line x1=\"{left:.0}\" x2=\"{:.0}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#e2e8f0\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{value_y:.0}</text>\
             <text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{value_x:.0}</text>",
            left + width,
            y(value_y),
            y(value_y),
            left - 6.0,
            y(value_y) + 4.0,
            x(value_x),
            top + height + 16.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
        left + width / 2.0,
        top + height + 34.0,
        panel.x_name
    );
    for (nth, line) in panel.lines.iter().enumerate() {
        let points: Vec<String> = line
            .points
            .iter()
            .map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1)))
            .collect();
        let dashes = if line.is_dashed {
            " stroke-dasharray=\"5 4\""
        } else {
            ""
        };
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{dashes} points=\"{}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\" fill=\"{}\">{}</text>",
            line.colour,
            points.join(" "),
            left + width - 4.0,
            top + 14.0 + 15.0 * nth as f64,
            line.colour,
            line.name
        );
    }
}

/// Writes `measured` between marks of a page. A new page begins with `title`.
pub fn write_page(path: &Path, title: &str, marks: Marks, measured: &str) -> std::io::Result<()> {
    let old = std::fs::read_to_string(path).unwrap_or_else(|_| format!("# {title}\n"));
    std::fs::write(path, with_measured(&old, marks, measured))
}

/// Returns the lines between the marks of a page; `None` if it has no such marks.
pub fn measured(page: &str, marks: Marks) -> Option<&str> {
    let (_, rest) = page.split_once(marks.begin)?;
    let (measured, _) = rest.split_once(marks.end)?;
    Some(measured.trim())
}

fn with_measured(old: &str, marks: Marks, measured: &str) -> String {
    let Marks { begin, end } = marks;
    let (before, after) = match old.split_once(begin) {
        Some((before, rest)) => (
            before,
            rest.split_once(end).map_or("\n", |(_, after)| after),
        ),
        None => (old, "\n"),
    };
    let before = before.trim_end();
    format!("{before}\n\n{begin}\n{}\n{end}{after}", measured.trim_end())
}

/// Returns the word for a bar that was met, or missed.
pub fn verdict(passed: bool) -> &'static str {
    if passed { "PASS" } else { "short" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_is_kept() {
        let first = with_measured("# Title\n\nwords\n", FULL, "| a |\n");
        let again = with_measured(&format!("{first}more words\n"), FULL, "| b |\n");
        let Marks { begin, end } = FULL;
        assert_eq!(
            again,
            format!("# Title\n\nwords\n\n{begin}\n| b |\n{end}\nmore words\n")
        );
        let both = with_measured(&again, SHORT, "| c |\n");
        assert_eq!(measured(&both, FULL), Some("| b |"));
        assert_eq!(measured(&both, SHORT), Some("| c |"));
        assert_eq!(measured(&again, SHORT), None);
    }

    #[test]
    fn tables_have_their_rows() {
        let mut table = Table::new(["a", "b"]);
        table.row(["1", "2"]);
        assert_eq!(table.into_text(), "| a | b |\n| --- | --- |\n| 1 | 2 |\n");
    }
}
