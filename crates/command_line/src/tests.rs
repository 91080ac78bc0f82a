use super::*;
use clap::CommandFactory;

fn parse(line: &str) -> Result<Cli, String> {
    let words = std::iter::once("quintet").chain(line.split_whitespace());
    Cli::try_parse_from(words).map_err(|e| e.to_string())
}

#[test]
fn definitions_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_has_examples() {
    let mut command = Cli::command();
    command.build();
    let own = |c: &clap::Command| {
        let quiet = [
            "status", "help", "list", "passwd", "key", "volume", "qos", "parity", "host", "show",
            "config", "patterns",
        ];
        c.get_after_help().is_some() || quiet.contains(&c.get_name())
    };
    for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
        assert!(own(sub), "{}", sub.get_name());
        for below in sub.get_subcommands().filter(|c| c.get_name() != "help") {
            assert!(own(below), "{} {}", sub.get_name(), below.get_name());
        }
    }
}

#[test]
fn lines_that_must_parse() {
    for line in [
        "-r /p init",
        "init --no-encryption",
        "key add --label x",
        "key remove 3f",
        "backup /a /b -e *.o -x --tag a,b --tag c -n --json",
        "backup --stdin --stdin-filename x",
        "backup --stdin-from-command -- pg_dump -Fc db",
        "backup --files-from list",
        "restore latest:/home -t /x --overwrite if-newer --in-place",
        "snapshots --latest --host h",
        "snapshots --latest 3",
        "ls -l latest /etc",
        "find *.key -s latest",
        "diff 12 34:/x --metadata",
        "dump latest /etc/fstab",
        "tag --add a latest",
        "tag --set= 12",
        "rewrite latest 12 -e *.o --iexclude *.O --exclude-file f -n",
        "rewrite --all --exclude /a --forget --json",
        "rewrite 12 --new-host h --new-time 2026-01-01",
        "ls -R latest --include *.o -e a/b",
        "restore latest -t /x --iinclude *.O --iexclude b --numeric-ids",
        "backup /a --ignore-inode --ignore-ctime",
        "patterns",
        "forget --keep-daily 7 --keep-within 1y -n",
        "forget 12 34",
        "import -f raw --force disk.img disk",
        "import disk.img disk --region-size 128KiB",
        "backup --stdin --region-size 64K",
        "diff disk@12 disk",
        "export -f raw disk@latest out",
        "check --read-data --subset 1/7",
        "repair --subset 2/7 -n",
        "repair --replica /r --replica-key-file k",
        "scrub --replica /r --replica-password-file f --limit 5M",
        "scrub start --replica /r",
        "stats --by snapshot",
        "copy --to /q --all -n --host h",
        "copy --to /q --to-password-file p latest a@b --limit 5M --json",
        "status -v -v",
        "setup -n --pool /p --backup /a /b --no-start",
        "setup --remove --config /x",
        "config check --config /x",
        "run",
        "run etc copy:offsite --config /x --json",
        "notify --test",
        "serve",
        "serve --metrics 127.0.0.1:9100 --journal 64M",
        "volume create a --size 100G --chunk-size 16K",
        "volume list --json",
        "volume clone a@b c",
        "volume snapshot a@b",
        "volume rollback a@b -n",
        "volume resize a 1T",
        "volume delete a --force",
        "top --interval 0.5 --count 3 --json",
        "serve --nbd-socket s --nbd-listen 127.0.0.1:0 --connections 4",
        "serve --iscsi-listen --nbd-socket s",
        "serve --iscsi-listen 127.0.0.1:0",
        "serve --iscsi-listen 192.0.2.1:3260 --iscsi-access f",
        "serve --read-only --nbd-socket s --memory 1G",
        "serve --read-only --nbd-socket s --nbd-listen 127.0.0.1:0 --export a --export b@12",
        "generate bash",
        "host cached /home --depth 2 --json",
        "host events /home --interval 0.5 --count 3 --poll",
        "host doctor",
        "host defrag analyse /srv --json",
        "host defrag analyse /srv --trace t --hot 20 --svg x.svg",
        "host defrag trace /srv -o t --seconds 0.5 --exact --force",
        "host defrag trace /srv -o t -- dd if=x --exact",
        "host defrag run /srv --trace t --hot 100 --limit-rate 20M",
        "host defrag run /srv --bypass -n --shared --limit-bytes 1G",
    ] {
        assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
    }
}

#[test]
fn lines_that_must_not_parse() {
    for line in [
        "",
        "nonsense",
        "backup --stdin /path",
        "import disk.img disk --region-size 4M",
        "backup /x --region-size 32K",
        "backup --stdin-from-command",
        "backup --exclude-larger-than 10MB /x",
        "restore latest",
        "forget --keep-daily 0",
        "forget --keep-within 5",
        "forget 12 --keep-last 1",
        "forget --group-by colour --keep-last 1",
        "tag latest",
        "rewrite --exclude a",
        "rewrite --all latest --exclude a",
        "restore latest -t /x --numeric-ids --no-owner",
        "backup --stdin --ignore-inode",
        "tag --set a --add b latest",
        "check --subset 1/7",
        "check --read-data --subset 8/7",
        "import -f iso a b",
        "serve --nbd-socket s --export a",
        "serve --metrics nowhere",
        "volume create a",
        "volume create a --size 10GB",
        "volume resize a",
        "top --interval 0",
        "host",
        "host events",
        "host events / --interval 0",
        "host defrag",
        "host defrag run /srv --limit-bytes 1GB",
        "host defrag run /srv --bypass --trace t",
        "host defrag run /srv --hot 20",
        "host defrag trace /srv",
        "host defrag trace /srv -o t --seconds 1 -- true",
        "serve --read-only",
        "serve --read-only --nbd-socket s --mount /x",
        "serve --read-only --nbd-socket s --journal 1G",
        "serve --read-only --nbd-socket s --replica-password-file f --replica p",
        "status -q -v",
        "setup --remove --pool /p",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn tags_split_at_commas() {
    let cli = parse("backup /x --tag a,b --tag c").unwrap();
    let Command::Backup(args) = cli.command else {
        panic!("not a backup");
    };
    assert_eq!(args.tag, ["a", "b", "c"]);
}

#[test]
fn help_tells_every_exit_code() {
    let help = help::shaped("1", help::Length::Long)
        .render_help()
        .to_string();
    let exit_codes = help.split("Exit codes:").nth(1).unwrap();
    let codes: Vec<&str> = exit_codes.split_whitespace().collect();
    for (exit, _) in terminal::exit::Exit::TABLE {
        // Exit code 141 is a convention of shells.
        if exit != terminal::exit::Exit::OutputClosed {
            assert!(
                codes.contains(&exit.code().to_string().as_str()),
                "{exit:?}"
            );
        }
    }
}

#[test]
fn the_topic_of_patterns_is_printed_and_every_option_refers_to_it() {
    let printed = parse("help patterns").unwrap_err();
    assert!(printed.starts_with("Patterns choose"), "{printed}");
    assert!(
        printed.ends_with(&format!("{PATTERNS_HELP}\n")),
        "{printed}"
    );
    let too_wide = PATTERNS_HELP.lines().find(|line| line.len() > 100);
    assert_eq!(too_wide, None);
    let mut options = 0;
    for command in Cli::command().get_subcommands() {
        for argument in command.get_arguments() {
            let names = ["include", "exclude", "patterns"];
            if names.contains(&argument.get_id().as_str()) {
                let help = argument.get_help().unwrap().to_string();
                assert!(
                    help.contains("quintet help patterns"),
                    "{}: {help}",
                    command.get_name()
                );
                options += 1;
            }
        }
    }
    // Of backup, restore (2), ls (2), find and rewrite.
    assert_eq!(options, 7);
}
