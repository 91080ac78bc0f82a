use super::*;
use crate::explain::RuleOutcome;
use crate::facts::Contents;

/// The default file of Open CAS Linux.
const OPEN_CAS: &str = "IO class id,IO class name,Eviction priority,Allocation\n\
    0,unclassified,22,1\n\
    1,metadata&done,0,1\n\
    11,file_size:le:4096&done,9,1\n\
    12,file_size:le:16384&done,10,1\n\
    20,file_size:le:1073741824&done,18,1\n\
    21,file_size:gt:1073741824&done,19,1\n\
    22,direct&done,20,1\n";

fn with(lines: &str) -> Result<Policy, PolicyError> {
    Policy::parse(&format!("{HEADER}\n{lines}"))
}

fn class(policy: &Policy, facts: &Facts<'_>) -> u8 {
    let class = policy.classify(facts);
    assert_eq!(policy.explain(facts).class, class, "{facts:?}");
    class.0
}

fn file(size_bytes: u64) -> Facts<'static> {
    Facts {
        contents: Contents::File {
            size_bytes,
            offset_bytes: 0,
        },
        ..Facts::default()
    }
}

#[test]
fn the_file_of_open_cas_is_read_and_obeyed() {
    let policy = Policy::parse(OPEN_CAS).expect("a policy");
    let metadata = Facts {
        contents: Contents::Directory,
        ..Facts::default()
    };
    let direct = Facts {
        is_direct: Some(true),
        ..Facts::default()
    };
    assert_eq!(class(&policy, &metadata), 1);
    assert_eq!(class(&policy, &file(4096)), 11);
    assert_eq!(class(&policy, &file(4097)), 12);
    assert_eq!(class(&policy, &file(1 << 40)), 21);
    assert_eq!(class(&policy, &direct), 22);
    assert_eq!(class(&policy, &Facts::default()), 0);
    let settings = policy.settings(IoClass(12));
    assert_eq!(settings.priority, Priority::Evictable(10));
    assert_eq!(settings.share, Share::ALL);
}

#[test]
fn the_last_match_wins_and_done_ends_the_search() {
    let lines = "0,unclassified,255,1\n1,file_size:gt:40960,2,0.5\n\
        2,io_class:1&file_size:lt:81920&done,3,1\n3,file_size:ge:0,,1\n";
    let policy = with(lines).expect("a policy");
    assert_eq!(class(&policy, &file(50_000)), 2);
    assert_eq!(class(&policy, &file(100_000)), 3);
    let explanation = policy.explain(&file(50_000));
    let outcomes: Vec<RuleOutcome> = explanation.verdicts.iter().map(|v| v.outcome).collect();
    let expected = [
        RuleOutcome::Overridden { by: IoClass(2) },
        RuleOutcome::Decides,
        RuleOutcome::NotReached {
            ended_by: IoClass(2),
        },
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(policy.settings(IoClass(3)).priority, Priority::Pinned);
    assert_eq!(policy.settings(IoClass(1)).share.hundredths(), 50);
}

#[test]
fn an_explanation_reads_well() {
    let lines = "1,metadata,0,1\n2,file_size:gt:10&extension:log,9,0.2\n3,file_size:le:99,,1\n";
    let policy = with(lines).expect("a policy");
    let text = policy.explain(&file(50)).to_string();
    let expected = "class 3: file_size:le:99\n  \
          pinned: other classes never evict it; may fill the whole cache\n  \
          fast tier: takes it whatever the access pattern, read and written\n\
        Rules, in the order in which they are asked:\n   \
           1  metadata: does not match\n   \
           2  file_size:gt:10&extension:log: does not match\n        \
                file_size:gt:10: yes\n        \
                extension:log: not known\n   \
           3  file_size:le:99: matches and decides\n";
    assert_eq!(text, expected);
    let none = policy.explain(&Facts::default());
    assert_eq!((none.class, none.rule), (IoClass(0), "unclassified"));
}

#[test]
fn lines_may_stand_in_any_order() {
    let policy = with("3,done,1,1\n1,metadata&done,2,1\n").expect("a policy");
    let classes: Vec<u8> = policy.classes().map(|(class, _)| class.0).collect();
    assert_eq!(classes, [0, 1, 3]);
    assert_eq!(class(&policy, &Facts::default()), 3);
    // Class 0 is not mentioned: evicted first, may fill the cache.
    assert_eq!(policy.settings(IoClass(0)), UNCLASSIFIED);
    assert_eq!(policy.settings(IoClass(200)), UNCLASSIFIED);
}

#[test]
fn what_is_written_is_read_as_the_same() {
    let lines =
        "0,unclassified,,0.07\n5,\"directory:/a,b|extension:\"\"x\",3,1\n63,wire:63,255,0\n";
    let policy = with(lines).expect("a policy");
    let text = policy.to_csv();
    let again = Policy::parse(&text).expect("a policy");
    assert_eq!(again.rules, policy.rules);
    assert_eq!(again.settings, policy.settings);
    assert_eq!(again.to_csv(), text);
    assert!(text.starts_with(
        "IO class id,IO class name,Eviction priority,Allocation\n0,unclassified,,0.07\n"
    ));
}

#[test]
fn errors_name_line_column_and_remedy() {
    for (lines, expected) in [
        (
            "1,metadata,0",
            "line 2: 3 fields, not 4; put a rule that contains a comma in double quotes",
        ),
        (
            "x,metadata,0,1",
            "line 2, IO class id: \"x\" is not a class; use a number from 0 to 63",
        ),
        (
            "64,metadata,0,1",
            "line 2, IO class id: \"64\" is not a class; use a number from 0 to 63",
        ),
        (
            "1,metadata,0,1\n\n1,journal,0,1",
            "line 4, IO class id: line 2 has this class; join the rules with |, or use another number",
        ),
        (
            "0,metadata,0,1",
            "line 2, IO class name: class 0 is called unclassified and has no rule; give the rule another number",
        ),
        (
            "1,metadata,256,1",
            "line 2, Eviction priority: \"256\" is not a priority; use 0 (kept longest) to 255 (evicted first), or leave it empty to pin the class",
        ),
        (
            "1,metadata,0,1.01",
            "line 2, Allocation: \"1.01\" is not a share; use 0.00 (do not cache) to 1.00, two decimals at most",
        ),
        (
            "1,file_sise:le:1,0,1",
            "line 2, IO class name: no condition is called \"file_sise\"; see docs/policies.md for all of them",
        ),
        (
            "1,process_name:fio,0,1",
            "line 2, IO class name: process_name is known only inside the machine that does the I/O; use origin: or volume:",
        ),
        (
            "2,io_class:3,0,1\n3,metadata,0,1",
            "line 2, IO class name: class 3 is not given before this rule; refer to a smaller number that has a rule",
        ),
    ] {
        let error = with(lines).expect_err(lines);
        assert_eq!(error.to_string(), expected);
    }
    for share in ["", ".5", "0.005", "1.1", "-0", "0,5", "2", "300", "1e0"] {
        let error = with(&format!("1,metadata,0,{share}"));
        assert!(error.is_err(), "{share}");
    }
}

#[test]
fn shares_are_read_as_open_cas_writes_them() {
    for (text, hundredths) in [
        ("0", 0),
        ("0.5", 50),
        ("0.05", 5),
        ("1", 100),
        ("1.00", 100),
    ] {
        assert_eq!(
            read_share(text).map(Share::hundredths),
            Ok(hundredths),
            "{text}"
        );
    }
}

#[test]
fn impossible_rules_are_named() {
    let policy = with(
        "1,metadata&file_size:le:1,0,1\n2,metadata,0,1\n3,lba:lt:10&lba:gt:20&done,0,1\n\
        4,lba:lt:10|lba:gt:20,0,1\n5,wire:0|extension:tar.gz,0,1\n6,wire:0|metadata,0,1",
    )
    .expect("a policy");
    assert_eq!(
        policy.impossible().collect::<Vec<_>>(),
        [IoClass(1), IoClass(3), IoClass(5)]
    );
}

#[test]
fn settings_change_without_the_rules() {
    let mut policy = Policy::parse(OPEN_CAS).expect("a policy");
    let pinned = ClassSettings {
        priority: Priority::Pinned,
        share: Share::ALL,
    };
    assert!(policy.set(IoClass(11), pinned) && policy.set(IoClass(0), pinned));
    assert!(!policy.set(IoClass(13), pinned));
    assert_eq!(policy.settings(IoClass(11)), pinned);
}

#[test]
fn the_fast_tier_may_have_settings_of_its_own() {
    let lines = "# fast: 0,255,0\n1,metadata,0,0.00\n#fast:1, ,0.50\n2,free,200,0.2\n";
    let policy = with(lines).expect("a policy");
    let of = |class| {
        let class = IoClass(class);
        [policy.settings(class), policy.fast_settings(class)]
    };
    let settings = |priority, hundredths| ClassSettings {
        priority,
        share: Share::from_hundredths(hundredths).expect("a share"),
    };
    let (memory, fast) = (
        settings(Priority::Evictable(0), 0),
        settings(Priority::Pinned, 50),
    );
    assert_eq!(of(1), [memory, fast], "not in memory, and pinned on flash");
    assert_eq!(of(0), [UNCLASSIFIED, settings(Priority::Evictable(255), 0)]);
    assert_eq!(of(2), [settings(Priority::Evictable(200), 20); 2]);
    let all = policy.all_fast_settings();
    assert!((0..CLASSES).all(|n| all[n] == policy.fast_settings(IoClass(n as u8))));
    let text = policy.to_csv();
    assert!(
        text.contains("\n1,metadata,0,0.00\n# fast: 1,,0.50\n2,"),
        "{text}"
    );
    let again = Policy::parse(&text).expect("a policy");
    assert_eq!((again.settings, again.fast), (policy.settings, policy.fast));
    assert_eq!(again.to_csv(), text);
    let explained = policy.explain(&Facts {
        contents: Contents::Metadata,
        ..Facts::default()
    });
    let explained = explained.to_string();
    for words in [
        "  allocation 0.00: not cached\n",
        "  fast tier: takes it whatever the access pattern, read and written; pinned",
        "may fill 50 % of",
    ] {
        assert!(explained.contains(words), "{words}: {explained}");
    }
}

#[test]
fn mistakes_in_comments_for_the_fast_tier_are_named() {
    let problem = |lines: &str| {
        let error = with(lines).expect_err(lines);
        (error.line, error.column, error.problem)
    };
    let row = "1,metadata,0,1\n";
    assert_eq!(
        problem(&format!("{row}# fast: metadata first\n")),
        (3, None, Problem::FastFields { found: 1 })
    );
    assert_eq!(
        problem(&format!("# fast: 2,0,1\n{row}")),
        (2, Some(Column::Id), Problem::FastClass { class: 2 })
    );
    assert_eq!(
        problem(&format!("{row}# fast: 1,0,1\n#fast: 1,0,1\n")),
        (4, Some(Column::Id), Problem::FastTwice { first_line: 3 })
    );
    let found = "1.5".to_owned();
    assert_eq!(
        problem(&format!("{row}# fast: 1,0,1.5\n")),
        (3, Some(Column::Allocation), Problem::Allocation { found })
    );
    let found = "keep".to_owned();
    assert_eq!(
        problem(&format!("{row}# fast: 1,keep,1\n")),
        (3, Some(Column::Priority), Problem::Priority { found })
    );
    assert_eq!(
        problem(&format!("{row}# fast: 64,0,1\n")).2,
        Problem::Id {
            found: "64".to_owned()
        }
    );
}
