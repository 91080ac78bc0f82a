use super::*;

fn speak(loudness: Loudness) -> (String, String) {
    let (console, out, err) = Console::captured(loudness);
    console.line("result").unwrap();
    console.message(Object::message("summary")).unwrap();
    console.note("note");
    console.detail("detail");
    console.warn("careful");
    console.warn_path(&PathError::new("open", "/a\n", io::Error::other("why")));
    console.fail(1, "the end", None);
    (out.text(), err.text())
}

#[test]
fn output_by_loudness() {
    let warnings = "warning: careful\nwarning: cannot open /a\\n: why\nquintet: the end\n";
    let (out, err) = speak(Loudness::default());
    assert_eq!(out, "result\n");
    assert_eq!(err, format!("note\n{warnings}"));
    let quiet = Loudness {
        quiet: true,
        ..Loudness::default()
    };
    assert_eq!(speak(quiet).1, warnings);
    let verbose = Loudness {
        verbose: 1,
        ..Loudness::default()
    };
    assert_eq!(speak(verbose).1, format!("note\ndetail\n{warnings}"));
}

#[test]
fn held_lines_are_said_when_a_quiet_run_did_not_just_succeed() {
    for says in [false, true] {
        let (console, out, _) = Console::captured(Loudness::default());
        console.hold_lines();
        console.line("first").unwrap();
        console.bytes(b"bytes\n").unwrap();
        assert_eq!(out.text(), "bytes\n");
        console.settle(says).unwrap();
        let expected = if says { "bytes\nfirst\n" } else { "bytes\n" };
        assert_eq!(out.text(), expected);
        console.line("later").unwrap();
        assert_eq!(out.text(), format!("{expected}later\n"));
    }
}

#[test]
fn programs_get_json_only() {
    let json = Loudness {
        json: true,
        ..Loudness::default()
    };
    let (out, err) = speak(json);
    assert_eq!(
        out,
        "{\"message_type\":\"summary\"}\n\
         {\"message_type\":\"error\",\"message\":\"careful\"}\n\
         {\"message_type\":\"error\",\"during\":\"open\",\"item\":\"/a\\n\",\"message\":\"why\"}\n"
    );
    assert_eq!(
        err,
        "{\"message_type\":\"exit_error\",\"code\":1,\"message\":\"the end\"}\n"
    );
}

#[test]
fn the_progress_line_is_removed_before_others() {
    let (console, _, err) = Console::captured(Loudness::default());
    console.paint(Some("50%"));
    console.note("note");
    console.paint(Some("60%"));
    console.paint(None);
    assert_eq!(err.text(), "50%\r\x1b[Knote\n60%\r\x1b[K");
}

#[test]
fn no_line_moves_a_cursor() {
    let (console, _, err) = Console::captured(Loudness::default());
    console.warn("host \u{1b}]0;x\u{7} is\nnot \u{9b}2J here \\");
    console.paint(Some("5% \r\u{1b}[A"));
    console.fail(1, "tag \u{1b}c", None);
    let said = err.text();
    assert_eq!(
        said,
        "warning: host \\u{1b}]0;x\\u{7} is\nnot \\u{9b}2J here \\\n5% \\r\\u{1b}[A\r\u{1b}[K\
         quintet: tag \\u{1b}c\n"
    );
}
