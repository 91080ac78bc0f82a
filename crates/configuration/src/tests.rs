//! Tests of the whole file: what is read, and what is refused with which line.

use super::*;

const PAGE: &str = include_str!("../../../docs/tasks.md");

/// Returns the examples of the page. The last has every key.
fn examples() -> Vec<&'static str> {
    let after = PAGE.split("```toml\n").skip(1);
    after
        .map(|text| text.split("```").next().unwrap())
        .collect()
}

fn example() -> &'static str {
    examples().pop().unwrap()
}

fn words(command: &[std::ffi::OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_str().unwrap()).collect();
    words.join(" ")
}

fn mistakes(text: &str) -> Vec<String> {
    let mistakes = Configuration::parse(text).err().unwrap_or_default();
    mistakes.iter().map(Mistake::to_string).collect()
}

/// Returns the only mistake of a file with these lines after `[pool]`, which takes two.
fn mistake(rest: &str) -> String {
    let found = mistakes(&format!("[pool]\npath = \"/p\"\n{rest}"));
    assert_eq!(found.len(), 1, "{rest}: {found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn the_example_of_the_page_is_a_file_with_every_job() {
    let read = Configuration::parse(example()).unwrap();
    let jobs = read.jobs();
    let lines: Vec<String> = jobs
        .iter()
        .map(|job| format!("{} {}", job.name, job.timer_lines().join(" ")))
        .collect();
    assert_eq!(
        lines,
        [
            "system OnCalendar=*-*-* 02:30:00",
            "db OnBootSec=900s OnUnitActiveSec=900s",
            "forget OnCalendar=daily",
            "copy:offsite OnCalendar=Sun *-*-* 04:00:00",
            "check OnCalendar=weekly",
            "scrub OnCalendar=monthly",
            "watch OnCalendar=hourly",
        ]
    );
    let all: Vec<String> = jobs
        .iter()
        .flat_map(|job| job.commands(3))
        .map(|command| words(&command))
        .collect();
    assert_eq!(
        all,
        [
            "backup --tag=nightly --tag=every=1d --limit=20M --exclude=*.iso --exclude=/home/*/.cache \
             --exclude-caches --one-file-system --snapshot -- /etc /home",
            "backup --tag=every=1h --stdin-filename=db.sql --stdin-from-command -- pg_dump --clean db",
            "forget --keep-last=3 --keep-hourly=24 --keep-daily=7 --keep-weekly=5 --keep-monthly=12 \
             --keep-yearly=unlimited --keep-within=2d",
            "gc",
            "copy --all --to=/mnt/offsite/pool --to-password-file=/etc/quintet/offsite.password \
             --limit=2M",
            "check --read-data --subset=3/7",
            "scrub",
        ]
    );
    let options = words(&read.options());
    let expected = "--repo=/srv/pool --password-file=/etc/quintet/password --memory=512M";
    assert_eq!(options, expected);
    let silent: Vec<_> = read.sources.iter().map(Source::silent_after_s).collect();
    assert_eq!(silent, [Some(36 * 3600), Some(1800)]);
    let notify = read.notify.unwrap();
    assert_eq!((notify.format, notify.on.len()), (Format::Ntfy, 4));
}

#[test]
fn every_example_of_the_page_is_read() {
    let examples = examples();
    assert_eq!(examples.len(), 2);
    for example in examples {
        assert!(
            Configuration::parse(example).is_ok(),
            "{:?}",
            mistakes(example)
        );
    }
}

#[test]
fn copies_are_called_by_either_name() {
    let read = Configuration::parse(example()).unwrap();
    let called = |name: &str| -> Vec<String> {
        let jobs = read.jobs().into_iter();
        let called = jobs.filter(|job| job.is_called(name));
        called.map(|job| job.name).collect()
    };
    assert_eq!(called("copy:offsite"), ["copy:offsite"]);
    assert_eq!(called("offsite"), ["copy:offsite"]);
    assert_eq!(called("copy:db"), [""; 0]);
}

#[test]
fn all_mistakes_are_reported_at_once_with_their_lines() {
    let found = mistakes(
        "[pool]\n\
         pasword-file = \"/x\"\n\
         \n\
         [sources.etc]\n\
         paths = [\"/etc\"]\n\
         when = \"sometimes\"\n\
         [retntion]\n\
         keep-last = 3\n",
    );
    assert_eq!(
        found,
        [
            "1: pool.path: the key is missing; give the directory of the pool",
            "2: pool.pasword-file: unknown key; did you mean password-file?",
            "6: sources.etc.when: \"sometimes\" is not a schedule; write \"hourly\", \"daily\", \
             \"weekly\", \"monthly\", \"02:30\", \"sun 02:30\" or \"every 15m\"",
            "7: retntion: unknown section; did you mean retention?",
        ]
    );
}

#[test]
fn mistakes_are_in_the_order_of_the_file() {
    let found = mistakes("[check]\nparts = 0\n[pool]\nmemory = 5\n");
    let lines: Vec<_> = found.iter().map(|mistake| &mistake[..2]).collect();
    assert_eq!(lines, ["2:", "3:", "4:"]);
}

#[test]
fn what_is_not_toml_has_a_line_too() {
    for (text, line) in [
        ("[pool]\npath = /srv/pool\n", "2: "),
        ("[pool]\npath = \"/p\"\npath = \"/q\"\n", "3: "),
        ("[pool]\npath = \"/p", "2: "),
        ("[pool\n", "1: "),
    ] {
        let found = mistakes(text);
        assert!(found[0].starts_with(line), "{text}: {found:?}");
    }
    assert_eq!(
        mistakes(""),
        ["1: pool: the section is missing; write [pool] with path = \"/srv/pool\""]
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_impossible_value_is_refused_with_its_remedy() {
    let source = |keys: &str| mistake(&format!("[sources.a]\n{keys}"));
    for (found, expected) in [
        (
            source("paths = [\"etc\"]"),
            "4: sources.a.paths: \"etc\" is not an absolute path; begin it with /",
        ),
        (
            source("paths = []"),
            "4: sources.a.paths: the list is empty",
        ),
        (
            source("paths = \"/etc\""),
            "4: sources.a.paths: expected a list, found a text; put it in brackets",
        ),
        (
            source("paths = [\"/a\", \"\"]"),
            "4: sources.a.paths: the text is empty",
        ),
        (
            source("paths = [\"/a\", 3]"),
            "4: sources.a.paths: expected a text in quotes, found a number",
        ),
        (
            source("when = \"daily\""),
            "3: sources.a: give paths (a tree) or command (a stream)",
        ),
        (
            source("paths = [\"/a\"]\ncommand = [\"x\"]"),
            "3: sources.a: paths and command are both set",
        ),
        (
            source("command = \"pg_dump db\""),
            "4: sources.a.command: a program and its arguments are a list",
        ),
        (
            source("command = []"),
            "4: sources.a.command: the list is empty",
        ),
        (
            source("command = [\"x\"]\nexclude = [\"y\"]"),
            "5: sources.a.exclude: unknown key; known here are command,",
        ),
        (
            source("paths = [\"/a\"]\ntags = [\"a,b\"]"),
            "5: sources.a.tags: \"a,b\" has a comma",
        ),
        (
            source("paths = [\"/a\"]\nsnapshot = \"yes\""),
            "5: sources.a.snapshot: expected true or false",
        ),
        (
            source("paths = [\"/a\"]\nsilent-after = \"2\""),
            "5: sources.a.silent-after: \"2\" is not a time span",
        ),
        (
            mistake("memory = \"5 parsecs\""),
            "3: pool.memory: \"5 parsecs\" is not a size",
        ),
        (
            mistake("password-file = \"/a\"\npassword-command = \"b\""),
            "4: pool.password-command: password-file is set too",
        ),
        (mistake("sources = 3"), "3: pool.sources: unknown key"),
        (
            mistake("[sources]\na = 3"),
            "4: sources.a: expected a section; write [sources.a], found a number",
        ),
        (
            mistake("[sources.check]\npaths = [\"/a\"]"),
            "3: sources.check: check is a job of its own",
        ),
        (
            mistake("[sources.\"a b\"]\npaths = [\"/a\"]"),
            "3: sources.a b: choose a name",
        ),
        (
            mistake("[retention]\nwhen = \"daily\""),
            "3: retention: no rule keeps a snapshot",
        ),
        (
            mistake("[retention]\nkeep-daily = 0"),
            "4: retention.keep-daily: 0 keeps no snapshot",
        ),
        (
            mistake("[retention]\nkeep-daily = \"7\""),
            "4: retention.keep-daily: expected a number",
        ),
        (
            mistake("[retention]\nkeep-within = \"soon\""),
            "4: retention.keep-within: \"soon\" is not a time span",
        ),
        (
            mistake("[copies.a]\nwhen = \"daily\""),
            "3: copies.a.to: the key is missing",
        ),
        (
            mistake("[check]\nparts = 0"),
            "4: check.parts: 0 is not a whole number from 1 to 1000",
        ),
        (
            mistake("[check]\nparts = \"7\""),
            "4: check.parts: expected a whole number from 1 to 1000, without quotes, found a text",
        ),
        (
            mistake("[scrub]\nlimit = 3"),
            "4: scrub.limit: unknown key; known here are when",
        ),
        (
            mistake("[notify]\non = [\"failure\"]"),
            "3: notify: no channel is set",
        ),
        (
            mistake("[notify]\nurl = \"ftp://x\""),
            "4: notify.url: it is not a URL of HTTP",
        ),
        (
            mistake("[notify]\ncommand = [\"x\"]\non = [\"noise\"]"),
            "5: notify.on: \"noise\" is no event",
        ),
        (
            mistake("[notify]\ncommand = [\"x\"]\non = []"),
            "5: notify.on: the list is empty",
        ),
        (
            mistake("[notify]\ncommand = [\"x\"]\nformat = \"ntfy\""),
            "5: notify.format: it needs url",
        ),
        (
            mistake("[notify]\nurl = \"https://x\"\nformat = \"xml\""),
            "5: notify.format: \"xml\" is no format",
        ),
    ] {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
}

#[test]
fn no_two_jobs_have_one_name_or_one_content() {
    let two = "[sources.a]\npaths = [\"/a\"]\n[copies.a]\nto = \"/b\"";
    let expected = "6: copies.a: [sources.a] has this name too";
    assert!(mistake(two).starts_with(expected), "{}", mistake(two));
    let two = "[sources.b]\npaths = [\"/a\", \"/b\"]\n[sources.a]\npaths = [\"/b\", \"/a\"]";
    let expected = "5: sources.a: [sources.b] has the same paths";
    assert!(mistake(two).starts_with(expected), "{}", mistake(two));
    let two =
        "[sources.b]\ncommand = [\"x\"]\n[sources.a]\ncommand = [\"y\"]\nstdin-filename = \"b\"";
    let expected = "5: sources.a: [sources.b] has the same stdin-filename";
    assert!(mistake(two).starts_with(expected), "{}", mistake(two));
}

#[test]
fn values_that_look_like_options_stay_values() {
    let text = "[pool]\npath = \"/p\"\n[sources.a]\npaths = [\"/a\"]\nexclude = [\"-x\"]\ntags = [\"every=6h\"]\nwhen = \"daily\"";
    let read = Configuration::parse(text).unwrap();
    let command = words(&read.jobs()[0].commands(1)[0]);
    assert_eq!(command, "backup --tag=every=6h --exclude=-x -- /a");
}

#[test]
fn a_source_says_what_it_ignores() {
    let text = "[pool]\npath = \"/p\"\n[sources.a]\npaths = [\"/a\"]\nignore-inode = true\n\
                ignore-ctime = true\n";
    let read = Configuration::parse(text).unwrap();
    let jobs = read.jobs();
    let commands = jobs.first().unwrap().commands(1);
    let command = words(commands.first().unwrap());
    assert_eq!(command, "backup --ignore-inode --ignore-ctime -- /a");
}
