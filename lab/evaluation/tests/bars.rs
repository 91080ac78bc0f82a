//! The committed pages of DDFS and of classes keep their bars, or name why not.

use evaluation::figures::{FULL, measured};

/// Returns the rows of the table of bars.
fn bars(page: &str) -> Vec<Vec<String>> {
    let full = measured(page, FULL).expect("the page has marks");
    let (_, table) = full.split_once("### Bars").expect("a table of bars");
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(2);
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split(" | ");
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    rows.map(cells).collect()
}

/// Returns what is wrong with a row of the page; `None` if nothing is.
fn fault(page: &str, row: &[String]) -> Option<String> {
    let [name, ours, _, bar, verdict, ..] = row else {
        return Some(format!("{row:?} has fewer than five cells"));
    };
    let (sign, bar) = bar.split_once(' ').unwrap_or_default();
    let (ours, bar) = (ours.parse::<f64>(), bar.parse::<f64>());
    let (Ok(ours), Ok(bar)) = (ours, bar) else {
        return Some(format!("{name}: no numbers"));
    };
    let holds = match sign {
        ">=" => ours >= bar,
        "<=" => ours <= bar,
        _ => return Some(format!("{name}: no sign")),
    };
    match (verdict.as_str(), holds) {
        ("PASS", true) => None,
        ("short", false) if page.contains(&format!("**{name}**")) => None,
        ("short", false) => Some(format!("{name}: the page names no cause")),
        _ => Some(format!(
            "{name}: {verdict}, but {ours} {sign} {bar} is {holds}"
        )),
    }
}

#[test]
fn bars_hold_or_their_cause_is_named() {
    for (name, least) in [("ddfs.md", 10), ("classes.md", 7)] {
        let page = super::pages::committed(name);
        let bars = bars(&page);
        assert!(bars.len() >= least, "{name}: {bars:?}");
        let faults: Vec<_> = bars.iter().filter_map(|row| fault(&page, row)).collect();
        assert!(faults.is_empty(), "{name}: {faults:#?}");
    }
}

#[test]
fn wrong_verdicts_are_found() {
    let row = |cells: [&str; 5]| cells.map(str::to_owned).to_vec();
    let says = |cells, page| fault(page, &row(cells)).is_some();
    assert!(!says(["a", "2.0", "", ">= 1.0", "PASS"], ""));
    assert!(says(["a", "0.9", "", ">= 1.0", "PASS"], ""));
    assert!(says(["a", "1.1", "", "<= 1.0", "PASS"], ""));
    assert!(says(["a", "0.9", "", ">= 1.0", "short"], ""));
    assert!(!says(["a", "0.9", "", ">= 1.0", "short"], "**a**: because"));
    assert!(says(["a", "2.0", "", ">= 1.0", "short"], "**a**: because"));
}
