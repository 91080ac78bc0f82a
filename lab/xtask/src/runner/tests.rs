//! Canaries of the runner: each kind of failure is seen as one.

use super::artifacts::{Program, parse};
use super::job::{Job, JobKind, Outcome};
use super::scratch::{self, Scratch};
use super::scripts::Head;
use super::{queue, report, unit};
use std::fs;
use std::path::PathBuf;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("runner.{}.{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn shell(name: &str, text: &str, judge: JobKind) -> Job {
    Job {
        name: name.to_owned(),
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), text.to_owned()],
        environment: Vec::new(),
        directory: None,
        seconds_max: 60,
        is_alone: false,
        judge,
    }
}

fn outcome(folder: &Folder, job: Job) -> Outcome {
    let scratch = Scratch::new(&folder.0).expect("scratch");
    let mut ended = queue::run(vec![job], &scratch, |_| {});
    ended.remove(0).outcome
}

#[test]
fn a_script_is_judged_by_its_exit_code() {
    let folder = Folder::new("codes");
    assert_eq!(
        outcome(&folder, shell("s/a", "exit 0", JobKind::Script)),
        Outcome::Passed
    );
    let skipped = outcome(
        &folder,
        shell("s/a", "echo no disk; exit 77", JobKind::Script),
    );
    assert_eq!(skipped, Outcome::Skipped("no disk".into()));
    let failed = outcome(&folder, shell("s/a", "exit 3", JobKind::Script));
    assert_eq!(failed, Outcome::Failed("exit code 3".into()));
}

#[test]
fn a_harness_that_ran_nothing_has_not_passed() {
    let folder = Folder::new("harness");
    let none = "echo 'test result: ok. 0 passed; 0 failed'";
    assert!(matches!(
        outcome(&folder, shell("c::t", none, JobKind::OneTest)),
        Outcome::Failed(_)
    ));
    let one = "echo 'test result: ok. 1 passed; 0 failed'";
    assert_eq!(
        outcome(&folder, shell("c::t", one, JobKind::OneTest)),
        Outcome::Passed
    );
    let worse = format!("{one}; exit 101");
    assert!(matches!(
        outcome(&folder, shell("c::t", &worse, JobKind::OneTest)),
        Outcome::Failed(_)
    ));
}

#[test]
fn a_script_that_hangs_is_ended() {
    let folder = Folder::new("hangs");
    let mut job = shell("s/a", "sleep 1000 & wait", JobKind::Script);
    job.seconds_max = 1;
    assert!(
        matches!(outcome(&folder, job), Outcome::Failed(why) if why.contains("did not end in 1 s"))
    );
}

#[test]
fn what_a_script_leaves_running_is_ended_and_reported() {
    let folder = Folder::new("left");
    let note = folder.0.join("process");
    // In a session of its own, so that the end of the process group does not reach it.
    // The shell is the process that is left only when it has become `sleep`.
    let text = format!(
        "setsid sh -c 'echo $$ >{0}; exec sleep 1000' & \
         until [ -s {0} ] && grep -q sleep /proc/$(cat {0})/comm; do :; done",
        note.display()
    );
    let left = outcome(&folder, shell("s/a", &text, JobKind::Script));
    assert!(
        matches!(&left, Outcome::Failed(why) if why.contains("left behind: process sleep 1000")),
        "{left:?}"
    );
    let process = fs::read_to_string(&note)
        .expect("a process")
        .trim()
        .to_owned();
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z"), "{state}");
}

#[test]
fn scratch_of_a_killed_run_is_removed_and_that_of_a_living_one_stays() {
    let folder = Folder::new("abandoned");
    let mine = Scratch::new(&folder.0).expect("scratch");
    let dead = folder.0.join("quintet-test.4194305");
    fs::create_dir_all(dead.join("0/below")).expect("a folder");
    fs::write(dead.join("owner"), "1").expect("a file");
    // The number is in use again, by a process that began later.
    let again = folder.0.join("quintet-test.1");
    fs::create_dir(&again).expect("a folder");
    fs::write(again.join("owner"), "0 is no start of process 1").expect("a file");
    // A link of somebody else's.
    let elsewhere = folder.0.join("elsewhere");
    fs::create_dir_all(elsewhere.join("stays")).expect("a folder");
    let link = folder.0.join("quintet-test.4194306");
    std::os::unix::fs::symlink(&elsewhere, &link).expect("a link");
    scratch::clear_abandoned(&folder.0);
    assert!(!dead.exists() && !again.exists());
    assert!(elsewhere.join("stays").exists() && link.is_symlink());
    mine.with_folder(|folder| assert!(folder.is_dir()));
}

#[test]
fn jobs_run_side_by_side_and_alone_ones_after_them() {
    let folder = Folder::new("beside");
    let scratch = Scratch::new(&folder.0).expect("scratch");
    let here = folder.0.display();
    // Each waits for the other: one after the other they would not end.
    let meet = |me: &str, other: &str| {
        format!("touch {here}/{me}; until [ -e {here}/{other} ]; do sleep 0.01; done")
    };
    let mut last = shell(
        "s/alone",
        &format!("test -e {here}/a && test -e {here}/b"),
        JobKind::Script,
    );
    last.is_alone = true;
    let jobs = vec![
        last,
        shell("s/a", &meet("a", "b"), JobKind::Script),
        shell("s/b", &meet("b", "a"), JobKind::Script),
    ];
    let ended = queue::run(jobs, &scratch, |_| {});
    assert!(ended.iter().all(|e| e.has_passed()), "{ended:?}");
    assert_eq!(ended.last().map(|e| e.name.as_str()), Some("s/alone"));
}

#[test]
fn a_run_of_nothing_is_no_success() {
    assert!(!report::end(&[]));
}

#[test]
fn names_mean_suites_scripts_crates_and_tests() {
    let script = shell("nbd/zero-and-trim", "", JobKind::Script);
    for name in ["scripts", "nbd", "nbd/zero-and-trim", "zero-and-trim"] {
        assert!(script.is_meant_by(name), "{name}");
    }
    for name in ["unit", "nb", "zero", "trim", ""] {
        assert!(!script.is_meant_by(name), "{name}");
    }
    let test = shell("store::pool::tests::opens", "", JobKind::OneTest);
    for name in ["unit", "store", "store::pool", "store::pool::tests::opens"] {
        assert!(test.is_meant_by(name), "{name}");
    }
    for name in ["scripts", "sto", "pool", "store::po", ""] {
        assert!(!test.is_meant_by(name), "{name}");
    }
}

#[test]
fn heads_of_scripts_say_how_they_run() {
    let head = Head::of(
        "#!/bin/sh\n# Drops caches.\n# alone: it drops all caches\n# seconds: 600\n\n# long\n",
    );
    let expected = Head {
        seconds_max: 600,
        is_alone: true,
        is_long: false,
    };
    assert_eq!(head, Ok(expected));
    assert!(Head::of("# alone:").is_err());
    assert!(Head::of("# seconds: many").is_err());
}

#[test]
fn programs_of_a_build_are_found() {
    let line = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/store#0.1.0","manifest_path":"/w/crates/store/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"all","src_path":"/w","test":true},"profile":{"opt_level":"2","debuginfo":1,"test":true},"features":[],"filenames":["/w/all-1"],"executable":"/w/all-1","fresh":true}"#;
    let expected = Program {
        package: "store".into(),
        target: "all".into(),
        kind: "test".into(),
        is_test: true,
        path: "/w/all-1".into(),
        directory: "/w/crates/store".into(),
    };
    assert_eq!(parse(line), Ok(vec![expected]));
    let elsewhere = line.replace("store#0.1.0", "store#other_name@0.1.0");
    assert_eq!(parse(&elsewhere).unwrap()[0].package, "other_name");
    let library = line.replace(r#""executable":"/w/all-1""#, r#""executable":null"#);
    assert_eq!(parse(&library), Ok(Vec::new()));
    assert!(parse(&line.replace("manifest_path", "manifest")).is_err());
    assert!(parse(&line.replace("/w/all-1", r"/w\\all-1")).is_err());
}

#[test]
fn tests_that_a_harness_lists_are_found() {
    assert_eq!(unit::listed("a::b: test\nc: benchmark\n\n"), ["a::b"]);
}
