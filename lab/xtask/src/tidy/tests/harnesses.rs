//! Canaries of the rule about integration tests.

use super::{accepted, file, krate, refused};

const ALL: &str = "[[test]]\nname = \"all\"\npath = \"tests/main.rs\"\n";

#[test]
fn a_test_file_that_no_harness_runs_is_refused() {
    let main = |modules| file("crates/units/tests/main.rs", modules);
    let test = |name: &str| file(&format!("crates/units/tests/{name}.rs"), "");
    accepted(vec![krate("units", "0", ""), test("only")]);
    accepted(vec![
        krate("units", "0", ALL),
        main("mod one;\nmod two;\n"),
        test("one"),
        test("two"),
        file("crates/units/tests/two/below.rs", ""),
    ]);
    let apart = format!("{ALL}[[test]]\nname = \"two\"\npath = \"tests/two.rs\"\n");
    accepted(vec![
        krate("units", "0", &apart),
        main("mod one;\n"),
        test("one"),
        test("two"),
    ]);
    let lost = "units/tests/two.rs: no harness runs this file";
    refused(
        vec![
            krate("units", "0", ALL),
            main("mod one;\n"),
            test("one"),
            test("two"),
        ],
        lost,
    );
    refused(
        vec![krate("units", "0", ALL), main("// mod two;\n"), test("two")],
        lost,
    );
    // Two harnesses that cargo finds by itself.
    refused(
        vec![krate("units", "0", ""), test("one"), test("two")],
        lost,
    );
    // A harness that cargo does not know, because the manifest names none.
    refused(
        vec![krate("units", "0", ""), main("mod two;\n"), test("two")],
        lost,
    );
}
