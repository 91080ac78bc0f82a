//! Draws the sizes of pieces as SVG. `analyse` and `run` call this for `--svg`.
//!
//! Invariant: no text comes from outside, so nothing has to be escaped.

use linux_host::Histogram;
use std::fmt::Write;
use terminal::sizes;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;
const PLOT: (f64, f64) = (WIDTH - LEFT - 20.0, HEIGHT - TOP - 60.0);

/// Draws the bytes in pieces of each size as bars: `before`, and `after` beside it if there is one.
pub(super) fn histogram(before: &Histogram, after: Option<&Histogram>) -> String {
    let mut bars = vec![("before", "#c44", before)];
    bars.extend(after.map(|after| ("after", "#48a", after)));
    if let (1, Some(bar)) = (bars.len(), bars.first_mut()) {
        bar.0 = "now";
    }
    let classes = before.classes().count();
    let highest = bars.iter().flat_map(|(.., h)| h.classes());
    let highest = highest.map(|class| class.bytes).max().unwrap_or(0).max(1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH:.0}\" height=\"{HEIGHT:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT:.0}\" y=\"18\">Bytes in contiguous pieces, by the size of the piece</text>\n\
         <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\n",
        LEFT - 6.0,
        TOP + 10.0,
        sizes::display(highest)
    );
    let step = PLOT.0 / classes as f64;
    let thickness = step * 0.8 / bars.len() as f64;
    for (nth, (name, colour, of)) in bars.iter().enumerate() {
        let at = LEFT + 150.0 * nth as f64;
        let y = HEIGHT - 14.0;
        let _ = writeln!(
            svg,
            "<text x=\"{at:.0}\" y=\"{y:.0}\" fill=\"{colour}\">{name}: {} pieces</text>",
            of.pieces()
        );
        for (class, part) in of.classes().enumerate() {
            let height = part.bytes as f64 / highest as f64 * PLOT.1;
            let x = LEFT + step * class as f64 + thickness * nth as f64;
            let y = TOP + PLOT.1 - height;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{thickness:.1}\" height=\"{height:.1}\" \
                 fill=\"{colour}\"><title>{} pieces, {}</title></rect>",
                part.pieces,
                sizes::display(part.bytes)
            );
        }
    }
    for (class, part) in before.classes().enumerate() {
        let label = match part.bytes_min {
            0 => "less".to_owned(),
            bytes => sizes::display(bytes),
        };
        let x = LEFT + step * (class as f64 + 0.4);
        let y = TOP + PLOT.1 + 14.0;
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.0}\" text-anchor=\"middle\" font-size=\"8\">{label}</text>"
        );
    }
    let y = TOP + PLOT.1;
    let _ = writeln!(
        svg,
        "<line x1=\"{LEFT:.0}\" y1=\"{y:.0}\" x2=\"{:.0}\" y2=\"{y:.0}\" stroke=\"#000\"/>\n</svg>",
        LEFT + PLOT.0
    );
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write as _;

    /// Heights of the bars of a colour.
    fn heights(svg: &str, colour: &str) -> Vec<String> {
        let bars = svg.lines().filter(|line| line.starts_with("<rect x="));
        let bars = bars.filter(|line| line.contains(colour));
        let height = |line: &str| {
            line.split("height=\"")
                .nth(1)?
                .split('"')
                .next()
                .map(str::to_owned)
        };
        bars.filter_map(height).collect()
    }

    #[test]
    fn the_fullest_class_is_as_high_as_the_plot_and_empty_ones_have_no_height() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let mut file = File::create_new(dir.path().join("file")).unwrap();
        file.write_all(&[1; 100 << 10]).unwrap();
        file.sync_all().unwrap();
        let full = Histogram::of(&file).unwrap();
        let svg = histogram(&Histogram::default(), Some(&full));
        let before = heights(&svg, "#c44");
        assert!(before.iter().all(|height| height == "0.0"), "{before:?}");
        let after = heights(&svg, "#48a");
        assert_eq!(after.len(), full.classes().count());
        assert!(after.contains(&format!("{:.1}", PLOT.1)), "{after:?}");
        assert!(svg.contains("after: "));
        let one = histogram(&full, None);
        assert!(one.contains(">now: ") && !one.contains("before: "));
        assert_eq!(one.matches("<svg").count(), one.matches("</svg>").count());
    }
}
