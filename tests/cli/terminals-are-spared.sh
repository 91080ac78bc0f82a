#!/usr/bin/env bash
# Binary data is not dumped to a terminal, unless --force says; text is. `top --once` prints plain lines to one. A
# restore of a whole snapshot knows its end from the start.
. "$(dirname "$0")/common.sh"
requires script
mkdir "$dir/src" && echo words >"$dir/src/text" && printf 'a\0b\n' >"$dir/src/binary"
# More files than a restore has in its queue, so that its walk takes as long as it does.
mkdir "$dir/src/many" && noise "$dir/noise" 40 && split -a 4 -b 20K "$dir/noise" "$dir/src/many/"
new_pool
exits 0 q backup "$dir/src"
# on_terminal ARGUMENT...: the program on a terminal; what that shows is in $dir/shown, the exit code in $code.
on_terminal() {
    code=0
    script -qec "$(printf '%q ' "$QUINTET" "$@")" /dev/null </dev/null >"$dir/shown" 2>&1 || code=$?
}
shows() { grep -qa -- "$1" "$dir/shown" || fail "not shown: $1: $(cat -v "$dir/shown")"; }

on_terminal dump latest "$dir/src/text"
[ "$code" -eq 0 ] || fail "dump of text exited with $code"
shows words
for what in src/binary src; do
    on_terminal dump latest "$dir/$what"
    [ "$code" -eq 1 ] || fail "dump of $what to a terminal exited with $code"
    shows 'binary data.*redirect it.*--force'
done
on_terminal dump --force latest "$dir/src/binary"
[ "$code" -eq 0 ] || fail "dump --force exited with $code"
q dump latest "$dir/src/binary" | cmp - "$dir/src/binary" || fail "a pipe got other bytes"

start_server
on_terminal top --once --interval 0.1
[ "$code" -eq 0 ] || fail "top exited with $code: $(cat -v "$dir/shown")"
! grep -qa $'\033' "$dir/shown" || fail "escape codes: $(cat -v "$dir/shown")"
[ -s "$dir/shown" ] || fail "top --once said nothing"
stop_server

exits 0 env QUINTET_PROGRESS_FPS=60 "$QUINTET" --json restore latest --target "$dir/back"
first=$(grep -m 1 '"message_type":"status"' "$dir/out") || fail "no progress"
[[ $first == *'"total_files":2050,"total_bytes":'"$((40 * 1048576 + 10)),"* ]] || fail "no totals at the start: $first"
