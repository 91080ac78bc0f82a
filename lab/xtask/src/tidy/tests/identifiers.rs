//! Canaries of the rules about identifiers.

use super::{accepted, file, refused};

fn media(code: &str) -> Vec<(String, String)> {
    vec![file("crates/media/src/a.rs", code)]
}

#[test]
fn words_that_the_glossary_replaces_are_refused_in_identifiers() {
    for code in [
        "fn is_told() {}\n",
        "struct HealOptions;\n",
        "fn f(reclaimable_bytes: u64) {}\n",
        "const UNFOLDED: u8 = 1;\n",
        "fn f() { fold(1) }\n",
        "#[cfg(test)]\nmod tests {\n    fn nobody_waits() {}\n}\n",
    ] {
        refused(media(code), "(docs/glossary.md)");
    }
    accepted(media("fn f() { a.iter().fold(0, g) }\n"));
    accepted(media("const NAME: &str = \"set_aside\";\n"));
    accepted(media("fn whole(threshold: u64, loud: bool) {}\n"));
}

#[test]
fn a_type_has_a_noun_and_no_name_of_two_other_crates() {
    refused(media("pub struct State;\n"), "put a noun before it");
    refused(media("    enum Kept {\n"), "put a noun before it");
    accepted(media(
        "impl A for B {\n    type Inner = C;\n}\nstruct SlotState;\n",
    ));
    let in_crates = |third: &str| {
        let of = |krate: &str, code: &str| file(&format!("crates/{krate}/src/a.rs"), code);
        let line = "pub struct Report;\n";
        vec![of("media", line), of("nbd", line), of("iscsi", third)]
    };
    refused(
        in_crates("pub enum Report {}\n"),
        "3 crates have a public type Report",
    );
    accepted(in_crates("struct Report;\n"));
    accepted(in_crates("pub struct Report2;\n"));
}
