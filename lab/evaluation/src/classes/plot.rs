//! The plot of the page: each row's factor over the conventional cache, by load, and the published
//! one.
//!
//! The program `evaluation` calls this.
//! Invariant: the figures are those of the tables.

use super::page::LOADS;
use super::rows::{CACHE, Measured, find};
use std::fmt::Write;

const ROW: f64 = 16.0;
const NAMES: f64 = 260.0;
const WIDTH: f64 = 300.0;
const TITLE: f64 = 34.0;
const COLOURS: [&str; 2] = ["#64748b", "#0d9488"];

fn panel(svg: &mut String, top: f64, (name, published): (&str, f64), rows: &[Measured]) {
    let cache = find(rows, CACHE).map_or(f64::NAN, |(_, outcome)| outcome.time as f64);
    let factors = rows.iter().map(|(row, outcome)| {
        let factor = cache / outcome.time.max(1) as f64;
        (row, factor)
    });
    let factors: Vec<_> = factors.collect();
    let most = factors.iter().map(|(_, factor)| *factor);
    let most = most.fold(published, f64::max) * 1.15;
    let x = |factor: f64| NAMES + factor / most * WIDTH;
    let bottom = top + TITLE + factors.len() as f64 * ROW;
    let _ = writeln!(
        svg,
        "<text x=\"8\" y=\"{:.0}\" font-weight=\"bold\">{name}: times the conventional cache</text>",
        top + 18.0
    );
    for (nth, (row, factor)) in factors.iter().enumerate() {
        let y = top + TITLE + nth as f64 * ROW;
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{NAMES:.0}\" y=\"{:.0}\" width=\"{:.1}\" height=\"{:.0}\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\">{factor:.2}</text>",
            NAMES - 6.0,
            y + 11.0,
            row.name,
            y + 2.0,
            x(*factor) - NAMES,
            ROW - 4.0,
            COLOURS[usize::from(row.by_class.is_some())],
            x(*factor) + 4.0,
            y + 11.0,
        );
    }
    for (at, colour, text) in [(1.0, "#94a3b8", ""), (published, "#c2410c", "published")] {
        let _ = writeln!(
            svg,
            "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.0}\" y2=\"{bottom:.0}\" stroke=\"{colour}\" stroke-dasharray=\"5 4\"/>\
             <text x=\"{0:.1}\" y=\"{2:.0}\" text-anchor=\"middle\" fill=\"{colour}\">{text}</text>",
            x(at),
            top + TITLE,
            top + TITLE - 3.0,
        );
    }
}

/// Draws the factors as SVG. `loads` are in the order of the page.
pub fn plot(loads: &[Vec<Measured>]) -> String {
    let height_of = |rows: &Vec<Measured>| TITLE + rows.len() as f64 * ROW + 10.0;
    let height: f64 = loads.iter().map(height_of).sum();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        NAMES + WIDTH + 50.0
    );
    let mut top = 0.0;
    for ((_, name, published, _), rows) in LOADS.iter().zip(loads) {
        panel(&mut svg, top, (name, *published), rows);
        top += height_of(rows);
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Outcome;
    use super::super::rows::rows;
    use super::*;

    #[test]
    fn each_row_has_its_bar() {
        let rows = rows(true).expect("policies that ship");
        let outcome = |time| Outcome {
            time,
            ..Outcome::default()
        };
        let of = |nth: u64| outcome(1_000_000_000 * (nth + 1));
        let measured: Vec<Measured> = rows.into_iter().zip((0..).map(of)).collect();
        let count = measured.len();
        let svg = plot(&[measured.clone(), measured.clone(), measured]);
        assert_eq!(svg.matches("<rect x=").count(), 3 * count);
        // The cache is the second row, so the first is twice as fast.
        assert_eq!(svg.matches(">2.00</text>").count(), 3);
        assert_eq!(svg.matches("published").count(), 3);
    }
}
