//! The committed pages of `docs/evaluation` say what the code of this checkout gives: FragPicker's
//! page as a whole, of the others the short run.

use evaluation::figures::{FULL, Marks, SHORT, SHORT_TASKS, measured, plot};
use evaluation::{ageing, classes, ddfs, fragments, maintenance, shipped};
use std::path::PathBuf;

pub(crate) fn committed(name: &str) -> String {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = here.join("../../docs/evaluation").join(name);
    std::fs::read_to_string(&path).expect(name)
}

#[track_caller]
fn says(name: &str, marks: Marks, now: &str) {
    let page = committed(name);
    let then = measured(&page, marks).expect("the page has marks");
    let differs = then.lines().zip(now.trim().lines()).find(|(a, b)| a != b);
    assert!(
        then == now.trim(),
        "docs/evaluation/{name} is not what the code gives: run `cargo run --release -p evaluation`. {differs:?}"
    );
}

#[test]
fn fragpicker() {
    says("fragpicker.md", FULL, &fragments::page::text(1 << 30));
    let panels = fragments::page::panels();
    assert!(committed("fragpicker.svg") == plot(&panels), "the plot");
}

#[test]
fn duet() {
    says("duet.md", SHORT, &maintenance::page::short_text());
}

#[test]
fn duet_by_the_tasks_that_ship() {
    let now = shipped::page::short_text().expect("cells");
    says("duet.md", SHORT_TASKS, &now);
}

#[test]
fn ageing_of_pools() {
    let now = ageing::page::short_text().expect("histories");
    says("ageing.md", SHORT, &now);
}

#[test]
fn classes_of_io() {
    let now = classes::page::results(&classes::settings::Settings::SHORT, 2).expect("loads");
    says("classes.md", SHORT, &now.text());
}

#[test]
fn ladders_of_ddfs() {
    let now = ddfs::page::short_text().expect("rows");
    says("ddfs.md", SHORT, &now);
}
