//! Canaries of the rules for comments and pages: length, first words, words that the glossary
//! replaces.

use super::{accepted, file, findings, krate, plain, refused};

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

fn page(text: &str) -> Vec<(String, String)> {
    vec![plain("docs/format/journal.md", text)]
}

#[test]
fn sentences_of_pages_have_a_subject() {
    for text in [
        "What is left goes.\n",
        "Two lines,\nand a third. What is left of\nit goes.\n",
        "- A list.\n- **Who asks**, waits.\n",
        "1. Who asks waits",
    ] {
        refused(page(text), "a sentence begins with");
    }
    refused(page("a\n\nb\nc. What d\n"), "journal.md:4: a sentence");
    accepted(page(
        "# What you may rely on\n\nWhat if the disk is full? **Who asks?** Whole. See `a. What b`.\n\n    \
         What is code.\n\n```\nWho is code.\n```\n\n| What |\n|---|\n| Who |\n",
    ));
}

#[test]
fn pages_use_the_terms_of_the_glossary() {
    for text in [
        "The file is gone.\n",
        "# Damage that is set aside\n",
        "| a | told once |\n",
        "Nobody waits.\n",
        "A `code span` that was\nset\naside.\n",
        "See [what is gone](other.md).\n",
    ] {
        let with = vec![page(text).remove(0), plain("docs/format/other.md", "x\n")];
        refused(with, "docs/glossary.md");
    }
    refused(
        page("x\n\ny\nz gone\n"),
        "docs/format/journal.md:4: \"gone\"",
    );
    let elsewhere = vec![
        page("See [a page](told.md) and `lost-writes-are-told.sh`, `a\ntold b`.\n").remove(0),
        plain("docs/format/told.md", "x\n"),
        plain("docs/glossary.md", "| gone | deleted |\n"),
    ];
    accepted(elsewhere);
}

#[test]
fn generated_parts_of_pages_are_the_generators() {
    for by in ["evaluation", "measured"] {
        let from = format!("<!-- {by}: from here -->\nIt is gone.\n<!-- {by}: to here -->\n");
        accepted(page(&from));
        refused(page(&format!("{from}It is gone.\n")), "journal.md:4");
    }
}

#[test]
fn long_lines_of_pages_are_warned_of() {
    let long = "x ".repeat(61);
    for (line, text) in [(1, format!("{long}\n")), (2, format!("a\n{long}\n"))] {
        let found = findings(page(&text));
        let expected = format!("docs/format/journal.md:{line}: a line of");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(!found[0].refused && found[0].to_string().contains(&expected));
    }
    accepted(page(&format!(
        "{}\n\n    {long}\n\n| {long} |\n",
        "x ".repeat(60)
    )));
}
