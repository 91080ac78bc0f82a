//! Import cycles between files, and the table of known ones.

use super::{file, findings, krate, refused};
use crate::tidy::Tree;

fn cycle(a: &str, b: &str) -> Vec<(String, String)> {
    vec![
        krate("media", "1", ""),
        file(
            "crates/media/src/lib.rs",
            "mod a;\nmod b;\nuse a::A;\npub use b::B;\n",
        ),
        file("crates/media/src/a.rs", a),
        file("crates/media/src/b.rs", b),
        file(
            "crates/media/src/b/below.rs",
            "use super::B;\npub struct Deep;\n",
        ),
    ]
}

#[test]
fn files_that_use_each_other_are_refused() {
    let refuse = |a: &str, b: &str| refused(cycle(a, b), "files that use each other");
    let accepted = |a: &str, b: &str| {
        let found = findings(cycle(a, b));
        let cycles = found
            .iter()
            .filter(|f| f.message.contains("use each other"));
        assert_eq!(cycles.count(), 0, "{found:?}");
    };
    accepted("use crate::b::B;\n", "mod below;\nuse below::Deep;\n");
    refuse("use crate::b::B;\n", "use super::a::A;\n");
    // By the name that the root exports, in a group, in code.
    refuse(
        "use crate::{x, B as C};\n",
        "use crate::{\n    a::{self, A},\n};\n",
    );
    refuse("fn f() -> crate::B {}\n", "fn f(a: super::a::A) {}\n");
    refuse("use super::B;\n", "fn f() {\n    use crate::A;\n}\n");
    // A cycle of three.
    let mut three = cycle("use crate::b::B;\n", "use crate::c::C;\n");
    three.push(file("crates/media/src/c.rs", "use crate::a::A;\n"));
    refused(
        three,
        "crates/media/src/a.rs, crates/media/src/b.rs, crates/media/src/c.rs",
    );
    // A re-exported name counts as one of the defining file, which is below no other file here.
    let deep = "mod below;\npub use below::Deep;\n";
    let mut exported = cycle("use crate::b::Deep;\n", deep);
    exported.push(file("crates/media/src/b/below.rs", "use crate::a::A;\n"));
    refused(
        exported,
        "crates/media/src/a.rs, crates/media/src/b/below.rs",
    );
    let same = "mod below;\npub use below::Deep;\nuse crate::a::A;\n";
    accepted("use crate::b::{Deep};\n", same);
    // Tests, comments and other crates.
    accepted(
        "use crate::b::B;\n",
        "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
    );
    accepted("use crate::b::B;\n", "// use crate::a::A;\n");
    accepted("use crate::b::B;\n", "use units::a::A;\nfn f(a: a::A) {}\n");
}

#[test]
fn the_table_of_circles_is_what_is_there() {
    let mut tree = Tree::of(cycle("use crate::b::B;\n", "use crate::a::A;\n"));
    let messages = |tree: &Tree| {
        let found = crate::tidy::cycles::check(tree);
        found
            .into_iter()
            .map(|f| f.message)
            .collect::<Vec<_>>()
            .join("; ")
    };
    assert!(messages(&tree).contains("use each other"));
    tree.cycles = &[&["crates/media/src/a.rs", "crates/media/src/b.rs"]];
    assert_eq!(messages(&tree), "");
    tree.cycles = &[
        &["crates/media/src/a.rs", "crates/media/src/b.rs"],
        &["crates/media/src/a.rs", "crates/media/src/c.rs"],
    ];
    assert!(messages(&tree).contains("this circle is gone"));
}
