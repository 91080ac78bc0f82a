//! Import cycles between modules.

use super::{file, findings, krate, refused};

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
fn modules_that_use_each_other_are_refused() {
    let refuse = |a: &str, b: &str| refused(cycle(a, b), "modules that use each other");
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
    refused(three, "use each other, a, b, c:");
    // A module counts with those below it, and a re-exported name as one of the defining file.
    let deep = "mod below;\npub use below::Deep;\n";
    let mut exported = cycle("use crate::b::Deep;\n", deep);
    exported.push(file("crates/media/src/b/below.rs", "use crate::a::A;\n"));
    refused(
        exported,
        "a uses b in crates/media/src/a.rs:2; b uses a in crates/media/src/b/below.rs:2",
    );
    let same = "mod below;\npub use below::Deep;\nuse crate::a::A;\n";
    refuse("use crate::b::{Deep};\n", same);
    // Tests, comments and other crates.
    accepted(
        "use crate::b::B;\n",
        "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
    );
    accepted("use crate::b::B;\n", "// use crate::a::A;\n");
    accepted("use crate::b::B;\n", "use units::a::A;\nfn f(a: a::A) {}\n");
}
