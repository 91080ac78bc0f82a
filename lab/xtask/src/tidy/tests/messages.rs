//! Canaries of the rules for messages, and of what counts as one.

use super::super::{Tree, messages};
use super::{accepted, file, krate, refused};

fn printing(code: &str) -> Vec<(String, String)> {
    vec![
        krate("media", "1", ""),
        file("crates/media/src/disk.rs", code),
    ]
}

/// Returns the taker and the text of each message.
fn listed(code: &str) -> Vec<(String, String)> {
    let found = messages::list(&Tree::of(printing(code)));
    found.into_iter().map(|m| (m.taker, m.text)).collect()
}

#[test]
fn each_way_to_print_is_found() {
    for (code, taker) in [
        (r#"fn f() { println!("two words"); }"#, "println!"),
        (r#"fn f() { warn(format!("two words")); }"#, "format!"),
        (r#"fn f() -> R { bail!("two words") }"#, "bail!"),
        (r#"fn f() -> R { g().context("two words") }"#, "context"),
        (r#"#[error("two words")] struct E;"#, "error"),
        (r#"const A: F = F { text: "two words" };"#, "text:"),
        (r#"const A: &str = "two words";"#, ""),
        (r##"const A: &str = r#"two words"#;"##, ""),
        ("fn f() { g(\"two \\\n   words\") }", "g"),
        (r#"fn f() { match x { A => "two words" } }"#, "x"),
    ] {
        let found = listed(code);
        let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["two words"], "{code}");
        if taker != "x" {
            assert_eq!(found.first().unwrap().0, taker, "{code}");
        }
    }
    assert_eq!(listed(r#"fn f() { write!(f, "{a}: exists") }"#).len(), 1);
}

#[test]
fn texts_that_no_user_sees_are_not_messages() {
    for code in [
        r#"fn f() { assert!(x, "two words"); }"#,
        r#"fn f() { g().expect("two words"); }"#,
        r#"#[expect(lint, reason = "two words")] fn f() {}"#,
        r#"fn f() { object.text("single", "word"); }"#,
        r#"fn f() { g(b"two words"); }"#,
        "// \"two words\"\n",
        "#[cfg(test)]\nmod tests {\n    fn f() { println!(\"two words\"); }\n}\n",
    ] {
        assert!(listed(code).is_empty(), "{code}");
    }
    let mut dev = printing(r#"fn f() { println!("two words"); }"#);
    dev.push(krate("media", "\"dev\"", ""));
    let dev = dev.into_iter().rev();
    assert!(messages::list(&Tree::of(dev)).is_empty());
}

#[test]
fn lines_of_messages_are_right() {
    let code = "// é\nfn f() {\n    println!(\n        \"two words\"\n    );\n}\n";
    let found = messages::list(&Tree::of(printing(code)));
    // `file` puts one line in front.
    assert_eq!(found.first().unwrap().line, 5);
}

#[test]
fn messages_in_plain_english_are_accepted() {
    accepted(printing(
        r#"fn f() { f!("cannot read {path}: {reason}; see `told`"); }"#,
    ));
    accepted(printing(r#"fn f() { f!("{}: {}: {}", a, b, c); }"#));
}

#[test]
fn messages_that_are_not_are_refused() {
    for (text, finding) in [
        ("the file is gone", "\"gone\" in a message"),
        ("What is left", "a message begins with \"What\""),
        ("asks whom it hurts", "\"whom\" in a message"),
        ("gc gives back the rest", "\"gives back\" in a message"),
        ("error: {a}: error: {b}", "\"error:\" twice"),
        ("open: missing: missing", "\"missing\" twice"),
    ] {
        let code = format!("fn f() {{\n    f!(\"{text}\");\n}}\n");
        refused(printing(&code), &format!("disk.rs:3: {finding}"));
    }
    let sentence = |len: usize| format!("const A: &str = \"a {}.\";\n", "b".repeat(len - 2));
    accepted(printing(&sentence(200)));
    refused(printing(&sentence(201)), "disk.rs:2: a sentence");
}
