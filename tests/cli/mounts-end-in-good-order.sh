#!/usr/bin/env bash
# A mount ends with 0 when it is interrupted or unmounted, waits for open files, and never hides its pool.
# Sealed: a mount asks for the password.
. "$(dirname "$0")/common.sh"
sealed
new_pool
mkdir "$dir/src"
noise "$dir/src/noise" 1
exits 0 q backup "$dir/src"
for place in "$pool" "$dir" "$pool/containers" "$dir/nowhere" "$dir/src/noise"; do
    exits 1 timeout --foreground 60 "$QUINTET" mount "$place"
done
mkdir "$mount"
# A mount does not hide files, unless it is told to.
echo mine >"$mount/file"
exits 1 timeout --foreground 60 "$QUINTET" mount "$mount"
says "it has files"
show --over
[ ! -e "$mount/file" ] || fail "not mounted"
unshow
[ "$(cat "$mount/file")" = mine ] && rm "$mount/file" || fail "the file is gone"
exits 12 env QUINTET_PASSWORD=wrong "$QUINTET" mount "$mount"
exits 10 q -r "$dir/src" mount "$mount"
for signal in INT TERM HUP; do
    show --json
    # The files can be seen a moment before the message is written.
    wait_until grep -q '"message_type":"mounted".*"snapshots":1' "$dir/mount.log"
    kill -$signal $server
    ended
    [ -z "$(ls "$mount")" ] || fail "still mounted after SIG$signal"
done
show
kill -USR1 $server
wait_until grep -q ' commands' "$dir/mount.err"
exec 9<"$mount/snapshots/latest$dir/src/noise"
kill -INT $server
wait_until test ! -e "$mount/snapshots"
wait_until grep -q 'in use' "$dir/mount.err"
cmp <(cat <&9) "$dir/src/noise" || fail "an open file cannot be read to its end"
exec 9<&-
ended
# Filters, and a pool without snapshots.
show --host nobody
[ "$(ls "$mount/snapshots")" = "" ] || fail "$(ls "$mount/snapshots")"
unshow
