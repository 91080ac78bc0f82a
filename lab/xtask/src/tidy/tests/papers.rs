//! Canaries of the rules about files, names and documents.

use super::{accepted, documents, file, findings, krate, plain, refused};
use crate::tidy::{Tree, check, lexer};

#[test]
fn a_file_says_what_it_is_and_is_short() {
    refused(
        vec![plain("crates/units/src/a.rs", "fn f() {}\n")],
        "opens with",
    );
    refused(
        vec![plain("crates/units/src/a.rs", "//!\nfn f() {}\n")],
        "opens with",
    );
    refused(
        vec![file("crates/units/src/a.rs", &"\n".repeat(600))],
        "601 lines",
    );
    let long = findings(vec![file("crates/units/src/a.rs", &"\n".repeat(300))]);
    assert!(long.len() == 1 && !long[0].refused, "{long:?}");
    accepted(vec![file("crates/units/src/a.rs", &"\n".repeat(299))]);
}

#[test]
fn unsafe_says_why_and_is_forbidden_where_it_is_not_used() {
    let at = "crates/units/src/a.rs";
    refused(vec![file(at, "fn f() { unsafe { g() } }\n")], "SAFETY");
    refused(
        vec![file(
            at,
            "// SAFETY: far away\n\nfn f() { unsafe { g() } }\n",
        )],
        "SAFETY",
    );
    accepted(vec![file(
        at,
        "// SAFETY: g has no conditions.\nfn f() { unsafe { g() } }\n",
    )]);
    accepted(vec![file(at, "// unsafe\nconst S: &str = \"unsafe\";\n")]);
    refused(
        vec![file("crates/units/src/lib.rs", "")],
        "forbid(unsafe_code)",
    );
    accepted(vec![file(
        "crates/units/src/lib.rs",
        "#![forbid(unsafe_code)]\n",
    )]);
    refused(vec![file(at, "use super::*;\n")], "name what is imported");
    accepted(vec![file(
        at,
        "#[cfg(test)]\nmod tests {\n    use super::*;\n}\n",
    )]);
}

#[test]
fn names_say_something() {
    for name in ["util", "common", "helper", "manager"] {
        refused(
            vec![file(&format!("crates/units/src/{name}.rs"), "")],
            "says nothing",
        );
        refused(
            vec![file(&format!("crates/units/src/{name}/a.rs"), "")],
            "says nothing",
        );
        refused(
            vec![file("crates/units/src/a.rs", &format!("mod {name} {{}}\n"))],
            "says nothing",
        );
    }
}

#[test]
fn documents_exist_and_are_complete() {
    let mut files = documents("", "");
    files.retain(|(path, _)| path != "CHANGELOG.md");
    let missing = check(&Tree::of(files));
    assert!(
        missing.iter().any(|f| f.path == "CHANGELOG.md"),
        "{missing:?}"
    );
    refused(
        vec![krate("access_pattern", "1", "")],
        "does not name the crate `access_pattern`",
    );
    refused(
        vec![plain("ARCHITECTURE.md", &"x\n".repeat(301))],
        "301 lines",
    );
    let needs = "[dependencies]\nblake3 = \"1\"\n";
    refused(vec![krate("units", "0", needs)], "no line for `blake3`");
    let listed = plain("docs/dependencies.md", "| `blake3` | fingerprints |\n");
    accepted(vec![krate("units", "0", needs), listed]);
}

#[test]
fn versions_have_a_history() {
    let code = "pub const ROOT_VERSION: u16 = 2;\n";
    let at = "crates/format/src/root.rs";
    let history = |line: &str| plain("docs/format/README.md", line);
    accepted(vec![file(at, code), history("| `root` | 2 | 2026-11 |\n")]);
    refused(
        vec![file(at, code), history("| `root` | 1 | 2026-11 |\n")],
        "ROOT_VERSION = 2",
    );
}

#[test]
fn links_lead_somewhere() {
    let page = |link: &str| vec![plain("docs/a.md", &format!("see [it]({link})\n"))];
    for good in [
        "../README.md",
        "semantics.md#time",
        "#here",
        "https://example.org/x",
        "format",
    ] {
        accepted(page(good));
    }
    for bad in ["nowhere.md", "../../outside.md", "/README.mdx"] {
        refused(page(bad), "leads nowhere");
    }
}

#[test]
fn this_machine_is_not_named() {
    let mut tree = Tree::of(vec![plain("docs/a.md", "cd /somewhere/checkout/x\n")]);
    assert!(
        !check(&tree)
            .iter()
            .any(|f| f.message.contains("this machine"))
    );
    tree.private_paths = vec!["/somewhere/checkout/".to_owned()];
    assert!(
        check(&tree)
            .iter()
            .any(|f| f.message.contains("this machine"))
    );
}

#[test]
fn code_comments_and_strings_are_distinguished() {
    let lexed =
        lexer::lex("a('\"', b'\\'', 'x: loop {}) /* /* */ c */ \"// no\" r#\"\" d\"# // e\nf");
    assert_eq!(
        lexed.code.split_whitespace().collect::<String>(),
        "a(,,'x:loop{})f"
    );
    assert!(lexed.comments.contains("c */") && lexed.comments.contains("// e"));
    assert!(!lexed.comments.contains("no") && !lexed.code.contains('d'));
}

#[test]
fn this_checkout_is_read() {
    let root = crate::checkout();
    let tree = Tree::load(&root).expect("the checkout is readable");
    assert!(tree.manifest("store").is_some() && tree.manifest("xtask").is_some());
    assert!(
        tree.sources
            .iter()
            .any(|s| s.path == "lab/xtask/src/main.rs")
    );
}
