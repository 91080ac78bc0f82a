#!/usr/bin/env bash
# With --json every line of every command that fails is one JSON object, on both outputs: with a pool that is not there,
# with arguments that mean nothing, with a program that fails, and with an output that is full.
# Sealed: the program that says the password is one of those that fail.
. "$(dirname "$0")/common.sh"
requires python3

# all_json WHAT: the lines of $dir/lines, of which at least one.
all_json() {
    python3 - "$dir/lines" <<'P' || fail "$1: $(cat "$dir/lines")"
import json, sys
lines = open(sys.argv[1]).read().splitlines()
assert lines
for line in lines:
    assert next(iter(json.loads(line))) == "message_type", line
P
}
# fails COMMAND...: with --json.
fails() {
    local status=0
    timeout 60 "$QUINTET" --json "$@" >"$dir/lines" 2>&1 </dev/null || status=$?
    [ $status -ne 0 ] && [ $status -ne 124 ] || fail "$*: exit code $status: $(cat "$dir/lines")"
    all_json "$*"
}
# names [COMMAND]: its subcommands.
names() {
    q "$@" --help | sed -n '/^\(Commands\|Store\):/,/^Options/s/^  \([a-z-][a-z-]*\) .*/\1/p' | grep -v '^help$'
}

echo x >"$dir/file"
mkdir "$dir/empty"
export QUINTET_REPOSITORY=$dir/none QUINTET_CONFIG=$dir/none.toml
while read -r -a words; do
    fails "${words[@]}"
    echo "${words[@]}" >>"$dir/tried"
done <<'C'
init --no-encryption --recovery-key-file /none/key
key add
key recovery key-file
key list
key remove 1
key passwd
parity set 5
parity show
upgrade
upgrade --dry-run
backup file
restore latest --target back
snapshots
ls latest
find file
diff 1234 5678
dump latest:/file
tag --add t latest
rewrite latest --exclude a
forget latest
undelete
gc
import file name
export latest out
copy --to none/other
check
repair
scrub
scrub start
scrub pause
scrub status
qos show
qos set backup=1
policy show none
policy set none
policy status
policy set auto
policy advise
policy explain none
defrag
defrag start
defrag pause
defrag resume
defrag cancel
defrag status
stats
status
setup --pool none --dry-run
config check
run
notify --test
generate none
top
volume create v 1M
volume list
volume info v
volume rename v w
volume clone v w
volume snapshot v
volume rollback v latest
volume resize v 2M
volume delete v
host cached none
host events none
host doctor none
host scrub file
host defrag run none
mount empty
serve
serve --read-only --nbd-socket
C
# A command that is new has to be above.
[ "$(names | wc -l)" -gt 20 ] || fail "no list of commands"
for command in $(names); do
    for sub in $(names "$command") ''; do
        grep -q "^$command${sub:+ $sub}\( \|$\)" "$dir/tried" || [ -z "$sub" ] || fail "not tried: $command $sub"
    done
    grep -q "^$command\( \|$\)" "$dir/tried" || fail "not tried: $command"
    fails "$command" --no-such-option
done
fails
fails nonsense

export QUINTET_REPOSITORY=$pool
sealed
new_pool
printf '#!/bin/sh\necho a loose line >&2\nexit 3\n' >"$dir/program"
chmod +x "$dir/program"
unset QUINTET_PASSWORD
fails --password-command "$dir/program" snapshots
grep -q 'a loose line' "$dir/lines" || fail "the program's words are lost: $(cat "$dir/lines")"
fails --password-command "echo correct horse" backup --stdin-from-command --stdin-filename s -- "$dir/program"
grep -q 'a loose line' "$dir/lines" || fail "the program's words are lost: $(cat "$dir/lines")"
status=0
QUINTET_PASSWORD='correct horse' q --json backup "$dir/file" >/dev/full 2>"$dir/lines" || status=$?
[ $status -ne 0 ] || fail "an output that cannot be written is no success"
all_json "a full output"
