use super::*;
use crate::error::Problem;

fn answer(text: &str, facts: &Facts<'_>) -> Answer {
    let condition = parse(text).expect(text);
    condition.question.answer(facts, IoClass(3))
}

fn file(size_bytes: u64, offset_bytes: u64) -> Facts<'static> {
    Facts {
        contents: Contents::File {
            size_bytes,
            offset_bytes,
        },
        volume: "db-1",
        offset_bytes: 1 << 20,
        len_bytes: 8192,
        ..Facts::default()
    }
}

#[test]
fn numbers_compare_as_open_cas_says() {
    let facts = file(4096, 8192);
    for (text, expected) in [
        ("file_size:4096", true),
        ("file_size:eq:4096", true),
        ("file_size:ne:4096", false),
        ("file_size:le:4096", true),
        ("file_size:lt:4096", false),
        ("file_size:ge:4097", false),
        ("file_offset:gt:4096", true),
        ("request_size:ge:8192", true),
        ("lba:2048", true),
        ("io_class:3", true),
        ("io_class:lt:3", false),
    ] {
        assert_eq!(answer(text, &facts), expected.into(), "{text}");
    }
}

#[test]
fn what_is_not_known_never_holds() {
    let facts = Facts::default();
    for text in [
        "file_size:ne:1",
        "file_offset:ge:0",
        "metadata",
        "wire:ge:0",
        "pattern:seq",
        "direct",
        "extension:txt",
        "directory:/",
        "file_name_prefix:a",
    ] {
        assert_eq!(answer(text, &facts), Answer::Unknown, "{text}");
    }
    assert_eq!(answer("unknown", &facts), Answer::Yes);
    assert_eq!(answer("unknown", &file(1, 0)), Answer::No);
}

#[test]
fn metadata_includes_journal_and_directories_as_in_open_cas() {
    let of = |contents| Facts {
        contents,
        ..Facts::default()
    };
    for (contents, metadata, journal, directory) in [
        (Contents::Metadata, true, false, false),
        (Contents::Journal, true, true, false),
        (Contents::Directory, true, false, true),
        (Contents::Free, false, false, false),
    ] {
        let facts = of(contents);
        assert_eq!(answer("metadata", &facts), metadata.into(), "{contents:?}");
        assert_eq!(answer("journal", &facts), journal.into(), "{contents:?}");
        assert_eq!(
            answer("directory", &facts),
            directory.into(),
            "{contents:?}"
        );
    }
    assert_eq!(answer("free", &of(Contents::Free)), Answer::Yes);
}

#[test]
fn files_are_found_by_name() {
    let facts = Facts {
        file_path: Some(b"/srv/www/a.b.html"),
        ..file(1, 0)
    };
    for (text, expected) in [
        ("directory:/srv", true),
        ("directory:/srv/", true),
        ("directory:/", true),
        ("directory:/sr", false),
        ("directory:/srv/www/a.b.html", true),
        ("extension:html", true),
        ("extension:b.html", false),
        ("file_name_prefix:a.", true),
        ("file_name_prefix:srv", false),
    ] {
        assert_eq!(answer(text, &facts), expected.into(), "{text}");
    }
    let bare = Facts {
        file_path: Some(b"/d.x/name"),
        ..facts
    };
    assert_eq!(answer("extension:x/name", &bare), Answer::No);
}

#[test]
fn ours_answer() {
    let facts = Facts {
        pattern: Some(Pattern::Random),
        origin: Origin::Collect,
        wire_class: 5,
        is_direct: Some(true),
        is_write: true,
        ..file(1, 0)
    };
    for (text, expected) in [
        ("pattern:rand", true),
        ("pattern:mono", false),
        ("origin:gc", true),
        ("origin:client", false),
        ("volume:db-*", true),
        ("volume:db", false),
        ("wire:5", true),
        ("wire:gt:5", false),
        ("direct", true),
        ("io_direction:write", true),
        ("io_direction:read", false),
    ] {
        assert_eq!(answer(text, &facts), expected.into(), "{text}");
    }
}

#[test]
fn refusals_say_what_to_use() {
    let problem = |text: &str| parse(text).expect_err(text);
    for kernel in [
        "pid:eq:1",
        "process_name:fio",
        "io_cgroup:/a",
        "hint:1",
        "core_id:1",
        "pid",
    ] {
        let problem = problem(kernel);
        assert!(matches!(problem, Problem::OnlyKernel { .. }), "{kernel}");
        assert!(problem.to_string().contains("; use "), "{problem}");
    }
    assert!(matches!(problem("metadata:1"), Problem::Operand { .. }));
    assert!(matches!(problem("file_size"), Problem::NoOperand { .. }));
    assert!(matches!(problem("file_size:"), Problem::NoOperand { .. }));
    assert!(matches!(
        problem("file_size:lee:1"),
        Problem::Comparison { .. }
    ));
    assert!(matches!(
        problem("wire:64"),
        Problem::Number { max: 63, .. }
    ));
    for number in [
        "file_size:-1",
        "file_size:+1",
        "file_size:4K",
        "file_size:le:",
        "lba:99999999999999999999",
    ] {
        assert!(
            matches!(problem(number), Problem::Number { .. }),
            "{number}"
        );
    }
    assert!(matches!(problem("pattern:any"), Problem::Word { .. }));
    assert!(matches!(
        problem("directory:srv"),
        Problem::NotFromRoot { .. }
    ));
    assert!(matches!(problem("files:1"), Problem::Condition { .. }));
    assert!(matches!(problem(" "), Problem::Empty));
    assert!(matches!(problem(":1"), Problem::Empty));
}
