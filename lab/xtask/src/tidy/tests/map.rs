//! Canary of the rule about the map, and eight questions that the map of this checkout must answer.

use super::{accepted, file, plain, refused};
use crate::tidy::{Tree, map};
use std::path::Path;

fn table(row: &str) -> (String, String) {
    let crates = "`units` `store` `nbd` `sim` `media` `format` `quintet`";
    let head = "## Where is ...\n\n| I want to change | go to | then |\n|---|---|---|\n";
    let text = format!("{crates}\n\n{head}{row}\n");
    plain("ARCHITECTURE.md", &text)
}

#[test]
fn files_of_the_map_exist() {
    let there = file("crates/units/src/size/parse.rs", "");
    let with = |row| vec![there.clone(), table(row)];
    accepted(with(
        "| a size | `crates/units/src/size` | `size/parse.rs` |",
    ));
    accepted(with("| a size | `units::Size` | the flag |"));
    refused(
        with("| a size | `crates/units/src/sizes` | |"),
        "does not exist",
    );
    refused(
        with("| a size | `crates/units/src/size/parse.rs` | `print.rs` |"),
        "does not exist",
    );
}

/// Questions of a person who is new here: words that they look for, and the file that answers.
const QUESTIONS: [(&str, &str); 8] = [
    ("a restore does", "crates/archive/src/restore/decide.rs"),
    ("disk image", "crates/archive/src/image.rs"),
    ("a backup leaves out", "crates/archive/src/selection.rs"),
    ("`--memory`", "crates/server/src/memory_plan.rs"),
    ("evicts", "crates/page_cache/src/policy/s3_fifo.rs"),
    ("access pattern", "crates/access_pattern/src/lib.rs"),
    ("a flush costs", "crates/journal/src/lib.rs"),
    (
        "a garbage collection run does",
        "crates/maintenance/src/collect.rs",
    ),
];

#[test]
fn the_map_answers_eight_questions() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let tree = Tree::load(checkout.expect("the checkout")).expect("its files");
    let text = tree.text("ARCHITECTURE.md").expect("the map");
    let rows = map::rows(text);
    for (words, answer) in QUESTIONS {
        let row = rows.iter().find(|row| row.question.contains(words));
        let row = row.unwrap_or_else(|| panic!("no row has the words {words:?}"));
        assert_eq!(row.files.first(), Some(&answer), "{}", row.question);
        assert!(map::exists(&tree, answer), "{answer}");
    }
}
