//! Canaries: each rule must fail on a bad sample and accept a good one.

use super::{Finding, Tree, check, lexer};

const OPENING: &str = "//! What it is and who calls it.\n";

fn room(name: &str, floor: &str, rest: &str) -> (String, String) {
    let text = format!(
        "[package]\nname = \"{name}\"\n\n[package.metadata.room]\nfloor = {floor}\n\n{rest}"
    );
    (format!("crates/{name}/Cargo.toml"), text)
}

fn file(path: &str, code: &str) -> (String, String) {
    (path.to_owned(), format!("{OPENING}{code}"))
}

fn plain(path: &str, text: &str) -> (String, String) {
    (path.to_owned(), text.to_owned())
}

fn documents(map: &str, dependencies: &str) -> Vec<(String, String)> {
    let mut files = vec![
        plain("ARCHITECTURE.md", map),
        plain("docs/dependencies.md", dependencies),
    ];
    for path in [
        "README.md",
        "CHANGELOG.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "docs/format/README.md",
        "docs/semantics.md",
        "docs/security.md",
    ] {
        files.push(plain(path, "x\n"));
    }
    files
}

fn findings(files: Vec<(String, String)>) -> Vec<Finding> {
    let mut all = documents("`units` `store` `nbd` `sim` `media` `format` `quintet`", "");
    for new in files {
        all.retain(|(path, _)| *path != new.0);
        all.push(new);
    }
    check(&Tree::of(all))
}

#[track_caller]
fn refused(files: Vec<(String, String)>, part: &str) {
    let found = findings(files);
    let hit = found
        .iter()
        .any(|f| f.refused && f.to_string().contains(part));
    assert!(hit, "nothing refused with {part:?}: {found:?}");
}

#[track_caller]
fn accepted(files: Vec<(String, String)>) {
    let found = findings(files);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn an_edge_down_is_accepted_and_sideways_or_up_is_refused() {
    let uses = |name: &str| format!("[dependencies]\n{name}.workspace = true\n");
    accepted(vec![
        room("units", "0", ""),
        room("nbd", "2", &uses("units")),
    ]);
    refused(
        vec![room("units", "0", &uses("nbd")), room("nbd", "2", "")],
        "may not use nbd",
    );
    refused(
        vec![room("media", "1", &uses("format")), room("format", "1", "")],
        "may not use format",
    );
    refused(
        vec![room("nbd", "2", &uses("sim")), room("sim", "\"dev\"", "")],
        "may not use sim",
    );
    accepted(vec![
        room("sim", "\"dev\"", &uses("nbd")),
        room("nbd", "2", ""),
    ]);
    refused(vec![room("units", "", "")], "where the room stands");
    refused(
        vec![plain(
            "crates/units/Cargo.toml",
            "[package]\nname = \"units\"\n",
        )],
        "where the room stands",
    );
}

#[test]
fn tests_may_look_sideways_and_at_dev_rooms_not_up() {
    let uses = |name: &str| format!("[dev-dependencies]\n{name} = {{ path = \"../{name}\" }}\n");
    accepted(vec![
        room("media", "1", &uses("format")),
        room("format", "1", ""),
    ]);
    accepted(vec![
        room("nbd", "2", &uses("sim")),
        room("sim", "\"dev\"", ""),
    ]);
    refused(
        vec![room("media", "1", &uses("store")), room("store", "3", "")],
        "may not use store",
    );
}

#[test]
fn every_shape_of_a_dependency_is_seen() {
    for shape in [
        "[dependencies]\nstore = { path = \"../store\" }\n",
        "[dependencies]\nengine = { package = \"store\", path = \"../store\" }\n",
        "[dependencies.store]\npath = \"../store\"\n",
        "[target.'cfg(unix)'.dependencies]\nstore.workspace = true\n",
        "[build-dependencies]\nstore.workspace = true\n",
    ] {
        refused(
            vec![room("media", "1", shape), room("store", "3", "")],
            "may not use store",
        );
    }
}

#[test]
fn some_libraries_stay_upstairs() {
    refused(
        vec![room("store", "3", "[dependencies]\nanyhow = \"1\"\n")],
        "errors have kinds",
    );
}

fn store(path: &str, code: &str) -> Vec<(String, String)> {
    let root = "#![forbid(unsafe_code)]\nmod catalog;\nmod error;\nmod pool;\nmod read_path;\n\
                pub use pool::{OpenMode, Pool};\n";
    vec![
        room("store", "3", ""),
        file("crates/store/src/lib.rs", root),
        file(&format!("crates/store/src/{path}"), code),
    ]
}

#[test]
fn store_modules_import_to_their_left() {
    accepted(store(
        "pool.rs",
        "use crate::catalog::map;\nuse crate::{error::Result, read_path};\n",
    ));
    accepted(store(
        "catalog/map.rs",
        "use super::inventory;\nuse crate::catalog::x;\n",
    ));
    refused(
        store("catalog.rs", "use crate::pool::Pool;\n"),
        "catalog imports pool to its right",
    );
    refused(
        store("catalog/map.rs", "use crate::pool::Pool;\n"),
        "to its right",
    );
    refused(
        store("catalog.rs", "use crate::{error::Result, pool};\n"),
        "imports pool",
    );
    refused(store("catalog.rs", "use super::pool;\n"), "imports pool");
    refused(
        store("catalog/map.rs", "fn f() { super::super::pool::g() }\n"),
        "imports pool",
    );
    refused(
        store("catalog.rs", "use crate::{error::{Result, pool}, Pool};\n"),
        "imports Pool",
    );
    refused(
        store("catalog.rs", "use crate::OpenMode;\n"),
        "imports OpenMode",
    );
    accepted(store(
        "catalog.rs",
        "// use crate::pool;\nconst S: &str = \"crate::pool\";\n",
    ));
    accepted(store(
        "catalog.rs",
        "#[cfg(test)]\nmod tests {\n    use crate::pool::Pool;\n}\n",
    ));
    let mut extra = store("catalog.rs", "");
    extra[1].1.push_str("mod journal;\n");
    refused(extra, "journal has no place");
}

fn in_room(name: &str, floor: &str, code: &str) -> Vec<(String, String)> {
    vec![
        room(name, floor, ""),
        file(&format!("crates/{name}/src/disk.rs"), code),
    ]
}

#[test]
fn words_stand_where_they_belong() {
    for word in [
        "use std::fs;",
        "let f = File::open(p)?;",
        "OpenOptions::new()",
        "SystemTime::now()",
        "Instant::now()",
        "rand::random()",
        "thread_rng()",
        "println!()",
        "std::env::var(x)",
        "std::thread::sleep(d)",
    ] {
        refused(
            in_room("store", "3", &format!("fn f() {{ {word} }}\n")),
            "crates/store/src/disk.rs:2",
        );
        accepted(in_room(
            "store",
            "3",
            &format!("// {word}\n/* {word} */\nconst S: &str = r#\"{word}\"#;\n"),
        ));
        let test = format!("#[cfg(test)]\nmod tests {{\n    fn f() {{ {word} }}\n}}\n");
        accepted(in_room("store", "3", &test));
        accepted(in_room("sim", "\"dev\"", &format!("fn f() {{ {word} }}\n")));
    }
    accepted(in_room("media", "1", "use std::fs;\n"));
    let after = "#[cfg(test)]\nmod tests {\n    fn f() {}\n}\nuse std::fs;\n";
    refused(in_room("store", "3", after), "crates/store/src/disk.rs:6");
}

#[test]
fn test_modules_in_their_own_file_are_tests() {
    let mut files = in_room("store", "3", "#[cfg(test)]\nmod sample;\n");
    files.push(file("crates/store/src/disk/sample.rs", "use std::fs;\n"));
    accepted(files);
    let mut files = in_room("store", "3", "mod sample;\n");
    files.push(file("crates/store/src/disk/sample.rs", "use std::fs;\n"));
    refused(files, "std::fs");
}

#[test]
fn some_words_are_never_right() {
    for word in ["todo!()", "unimplemented!()", "dbg!(x)"] {
        refused(
            in_room("sim", "\"dev\"", &format!("fn f() {{ {word} }}\n")),
            "never right",
        );
        let path = "crates/store/tests/a.rs";
        refused(
            vec![file(path, &format!("fn f() {{ {word} }}\n"))],
            "never right",
        );
    }
}

#[test]
fn decoders_do_not_panic() {
    refused(
        in_room("format", "1", "fn f() { x.unwrap() }\n"),
        "never panic",
    );
    accepted(in_room("units", "0", "fn f() { x.unwrap() }\n"));
}

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
        vec![room("access_pattern", "1", "")],
        "does not name the room `access_pattern`",
    );
    refused(
        vec![plain("ARCHITECTURE.md", &"x\n".repeat(301))],
        "301 lines",
    );
    let needs = "[dependencies]\nblake3 = \"1\"\n";
    refused(vec![room("units", "0", needs)], "no line for `blake3`");
    let listed = plain("docs/dependencies.md", "| `blake3` | fingerprints |\n");
    accepted(vec![room("units", "0", needs), listed]);
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
fn code_comments_and_strings_are_told_apart() {
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
            .any(|s| s.path == "crates/xtask/src/main.rs")
    );
}
