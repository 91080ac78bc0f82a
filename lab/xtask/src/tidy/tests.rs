//! Canaries: each rule must fail on a bad sample and accept a good one.

mod cycles;
mod emptiness;
mod harnesses;
mod identifiers;
mod map;
mod messages;
mod papers;
mod prose;

use super::{Finding, Tree, check};

const OPENING: &str = "//! Its purpose and its callers.\n";

fn krate(name: &str, layer: &str, rest: &str) -> (String, String) {
    let text = format!(
        "[package]\nname = \"{name}\"\n\n[package.metadata.quintet]\nlayer = {layer}\n\n{rest}"
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
    let mut all = documents(
        "`units` `store` `nbd` `sim` `media` `format` `quintet` `unlisted`",
        "",
    );
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
        krate("units", "0", ""),
        krate("nbd", "2", &uses("units")),
    ]);
    refused(
        vec![krate("units", "0", &uses("nbd")), krate("nbd", "2", "")],
        "may not use nbd",
    );
    refused(
        vec![
            krate("media", "1", &uses("format")),
            krate("format", "1", ""),
        ],
        "may not use format",
    );
    refused(
        vec![krate("nbd", "2", &uses("sim")), krate("sim", "\"dev\"", "")],
        "may not use sim",
    );
    accepted(vec![
        krate("sim", "\"dev\"", &uses("nbd")),
        krate("nbd", "2", ""),
    ]);
    refused(vec![krate("units", "", "")], "where the crate stands");
    refused(
        vec![plain(
            "crates/units/Cargo.toml",
            "[package]\nname = \"units\"\n",
        )],
        "where the crate stands",
    );
}

#[test]
fn tests_may_look_sideways_and_at_dev_rooms_not_up() {
    let uses = |name: &str| format!("[dev-dependencies]\n{name} = {{ path = \"../{name}\" }}\n");
    accepted(vec![
        krate("media", "1", &uses("format")),
        krate("format", "1", ""),
    ]);
    accepted(vec![
        krate("nbd", "2", &uses("sim")),
        krate("sim", "\"dev\"", ""),
    ]);
    refused(
        vec![krate("media", "1", &uses("store")), krate("store", "3", "")],
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
            vec![krate("media", "1", shape), krate("store", "3", "")],
            "may not use store",
        );
    }
}

#[test]
fn a_crate_that_has_grown_too_large_is_refused_and_its_tests_count() {
    // Files of 600 lines, the head included.
    let filler = "// x\n".repeat(599);
    let files = |count: usize| {
        let sources = (0..count).map(|n| match n % 2 {
            0 => file(&format!("crates/nbd/src/a{n}.rs"), &filler),
            _ => file(&format!("crates/nbd/tests/a{n}.rs"), &filler),
        });
        let mut files = vec![krate("nbd", "2", "")];
        files.extend(sources);
        files
    };
    let too_large = |count: usize| {
        let found = findings(files(count));
        found.iter().any(|f| {
            f.refused
                && f.to_string()
                    .contains("18600 lines in the crate's Rust files")
        })
    };
    assert!(!too_large(30), "18,000 lines are allowed");
    assert!(too_large(31));
}

#[test]
fn some_libraries_stay_upstairs() {
    refused(
        vec![krate("store", "3", "[dependencies]\nanyhow = \"1\"\n")],
        "errors have kinds",
    );
    let serde = "[dependencies]\nserde = \"1\"\n";
    let is_refused = |name| {
        let found = findings(vec![krate(name, "2", serde)]);
        found.iter().any(|f| f.message.contains("stored bytes"))
    };
    assert!(is_refused("nbd"));
    assert!(!is_refused("terminal"));
}

fn store(path: &str, code: &str) -> Vec<(String, String)> {
    let root = "#![forbid(unsafe_code)]\nmod write_path;\nmod budget;\nmod pool;\nmod check;\n\
                pub use pool::{OpenMode, Pool};\n";
    vec![
        krate("store", "3", ""),
        file("crates/store/src/lib.rs", root),
        file(&format!("crates/store/src/{path}"), code),
    ]
}

#[test]
fn modules_import_to_their_left() {
    accepted(store(
        "pool.rs",
        "use crate::write_path::image;\nuse crate::{budget::PoolMemory, check};\n",
    ));
    accepted(store(
        "write_path/image.rs",
        "use super::cache;\nuse crate::write_path::x;\n",
    ));
    refused(
        store("write_path.rs", "use crate::pool::Pool;\n"),
        "write_path imports pool to its right",
    );
    refused(
        store("write_path/image.rs", "use crate::pool::Pool;\n"),
        "to its right",
    );
    refused(
        store("write_path.rs", "use crate::{budget::PoolMemory, pool};\n"),
        "imports pool",
    );
    refused(store("write_path.rs", "use super::pool;\n"), "imports pool");
    refused(
        store(
            "write_path/image.rs",
            "fn f() { super::super::pool::g() }\n",
        ),
        "imports pool",
    );
    refused(
        store(
            "write_path.rs",
            "use crate::{budget::{PoolMemory, pool}, Pool};\n",
        ),
        "imports Pool",
    );
    refused(
        store("write_path.rs", "use crate::OpenMode;\n"),
        "imports OpenMode",
    );
    accepted(store(
        "write_path.rs",
        "// use crate::pool;\nconst S: &str = \"crate::pool\";\n",
    ));
    accepted(store(
        "write_path.rs",
        "#[cfg(test)]\nmod tests {\n    use crate::pool::Pool;\n}\n",
    ));
    let mut extra = store("write_path.rs", "");
    extra[1].1.push_str("mod laundry;\n");
    refused(extra, "laundry has no place");
    let mut extra = store("write_path.rs", "");
    extra[1].1.push_str("#[cfg(test)]\nmod laundry;\n");
    accepted(extra);
    let mut volumes = in_crate("volumes", "4", "");
    volumes.push(file(
        "crates/volumes/src/lib.rs",
        "#![forbid(unsafe_code)]\nmod budget;\nmod view;\n",
    ));
    volumes.push(file(
        "crates/volumes/src/budget.rs",
        "use super::view::View;\n",
    ));
    refused(volumes, "budget imports view to its right");
}

fn in_crate(name: &str, layer: &str, code: &str) -> Vec<(String, String)> {
    vec![
        krate(name, layer, ""),
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
            in_crate("store", "3", &format!("fn f() {{ {word} }}\n")),
            "crates/store/src/disk.rs:2",
        );
        accepted(in_crate(
            "store",
            "3",
            &format!("// {word}\n/* {word} */\nconst S: &str = r#\"{word}\"#;\n"),
        ));
        let test = format!("#[cfg(test)]\nmod tests {{\n    fn f() {{ {word} }}\n}}\n");
        accepted(in_crate("store", "3", &test));
        accepted(in_crate(
            "sim",
            "\"dev\"",
            &format!("fn f() {{ {word} }}\n"),
        ));
    }
    accepted(in_crate("media", "1", "use std::fs;\n"));
    let after = "#[cfg(test)]\nmod tests {\n    fn f() {}\n}\nuse std::fs;\n";
    refused(in_crate("store", "3", after), "crates/store/src/disk.rs:6");
}

#[test]
fn test_modules_in_their_own_file_are_tests() {
    let mut files = in_crate("store", "3", "#[cfg(test)]\nmod sample;\n");
    files.push(file("crates/store/src/disk/sample.rs", "use std::fs;\n"));
    accepted(files);
    let mut files = in_crate("store", "3", "mod sample;\n");
    files.push(file("crates/store/src/disk/sample.rs", "use std::fs;\n"));
    refused(files, "std::fs");
}

#[test]
fn some_words_are_never_right() {
    for word in ["todo!()", "unimplemented!()", "dbg!(x)"] {
        refused(
            in_crate("sim", "\"dev\"", &format!("fn f() {{ {word} }}\n")),
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
        in_crate("format", "1", "fn f() { x.unwrap() }\n"),
        "never panic",
    );
    accepted(in_crate("units", "0", "fn f() { x.unwrap() }\n"));
}
