//! Canaries of the rules for comments: length, first words, words that the glossary replaces.

use super::{accepted, file, krate, refused};

fn commented(name: &str, code: &str) -> Vec<(String, String)> {
    vec![
        krate(name, "1", ""),
        file(&format!("crates/{name}/src/disk.rs"), code),
    ]
}

#[test]
fn long_comments_are_refused() {
    let line = |columns: usize| format!("    // {}\n", "x".repeat(columns - 7));
    accepted(commented("media", &line(100)));
    refused(
        commented("media", &line(101)),
        "disk.rs:2: a comment of 101",
    );
    let after_code = format!("const A: u8 = 1; // {}\n", "x".repeat(90));
    refused(commented("media", &after_code), "wrap it at 100");
    // Columns are characters, not bytes.
    accepted(commented("media", &format!("// {}\n", "é".repeat(97))));
    // Code and strings are left to rustfmt.
    let string = format!("const A: &str = \"// {}\";\n", "x".repeat(99));
    accepted(commented("media", &string));
}

#[test]
fn comment_lines_have_a_subject() {
    for line in [
        "/// What of it is left.",
        "//! Who asks.",
        "// Whoever asks",
        "//What",
        "/* What */",
        "fn f() {} // Who knows",
    ] {
        let code = format!("{line}\n");
        refused(commented("media", &code), "disk.rs:2: a comment line");
    }
    accepted(commented(
        "media",
        "// Whole blocks. What else?\nconst S: &str = \"What \";\n",
    ));
}

#[test]
fn words_that_the_glossary_replaces_are_refused() {
    for line in [
        "// Regions that are set aside.",
        "//! Mended from a copy.",
        "/// The file is gone.",
        "// It ran in vain.",
        "fn f() {} // told once",
    ] {
        let code = format!("{line}\n");
        refused(commented("media", &code), "docs/glossary.md");
    }
    accepted(commented(
        "media",
        "// A mendicant; see `told::let_go` and [`Gone`]. Ungone.\nstruct Gone;\nfn told() {}\n",
    ));
}
