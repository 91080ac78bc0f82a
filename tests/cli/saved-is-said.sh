#!/usr/bin/env bash
# What was done is not hidden by an output that cannot be written, and failures have their cause, in JSON too.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src" && noise "$dir/src/noise" 1
new_pool
# full COMMAND...: its output cannot be written.
full() {
    local found=0
    "$@" >/dev/full 2>"$dir/err" </dev/null || found=$?
    [ "$found" -eq 1 ] || fail "$* exited with $found: $(cat "$dir/err")"
}
: >"$dir/out"
n=0
for json in "" --json; do
    for command in "backup $dir/src" "import $dir/src/noise disk --force" \
        "backup --stdin-filename stream --stdin-from-command -- echo x"; do
        # shellcheck disable=SC2086
        full q $json $command
        n=$((n + 1))
        says "snapshot [0-9a-f]* is saved, but the output cannot be written: no space left on device"
        [ "$(snapshots)" -eq $n ] || fail "$command: $(snapshots) snapshots"
    done
done
full q snapshots
says "the command has finished, but its output cannot be written: no space left on device"
# The id of a state names it.
id() { q snapshots --json | grep "\"$1\"" | grep -o '"short_id":"[0-9a-f]*"' | tail -n 1 | cut -d'"' -f4; }
exits 0 q export "$(id image)" "$dir/by-id"
cmp "$dir/by-id" "$dir/src/noise"
exits 1 q export "$(id tree)" "$dir/no"
says "is a snapshot of files and no image or stream"
# Each failure of --json is one line of JSON.
json_failure() {
    local code=0
    q --json "$@" >"$dir/out" 2>"$dir/err" </dev/null || code=$?
    [ $code -ne 0 ] || fail "$* succeeded"
    [ "$(grep -vc '^{"message_type"' "$dir/out" "$dir/err" | cut -d: -f2 | paste -sd+ | bc)" -eq 0 ] ||
        fail "$*: loose lines: $(cat "$dir/out" "$dir/err")"
    grep -q '"exit_error"' "$dir/err" || fail "$*: $(cat "$dir/err")"
}
requires bc
json_failure no-such-command
json_failure restore 00000000 --target "$dir/x"
json_failure backup --stdin
json_failure export nothing "$dir/x"
json_failure check extra
json_failure import "$dir/missing" disk
json_failure --no-such-flag
if command -v qemu-img >/dev/null; then
    exits 0 qemu-img create -q -f qcow2 "$dir/a.qcow2" 1M
    head -c 60 "$dir/a.qcow2" >"$dir/b.qcow2"
    json_failure import "$dir/b.qcow2" disk
    says '"helper_output":"qemu-img: '
    TMPDIR=$dir/none exits 1 q import "$dir/a.qcow2" disk
    says "cannot create a temporary directory in $dir/none; set TMPDIR"
fi
sound
