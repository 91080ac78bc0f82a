#!/usr/bin/env bash
# Trees, an image, a stream and a state of a volume go to a pool with other keys, whole and by their names; what is
# there is not sent again, and of what is newer only what changed.
# Sealed: chunks go from the keys of one pool to those of another.
# seconds: 600
. "$(dirname "$0")/common.sh"
sealed
other_pool

real_tree "$dir/src/real" 12
mkdir -p "$dir/src/below/deep"
noise "$dir/src/below/large" 24
noise "$dir/src/below/deep/other" 1
ln "$dir/src/below/large" "$dir/src/below/linked"
truncate -s 64M "$dir/src/sparse"
noise "$dir/image" 40
truncate -s 96M "$dir/image"
noise "$dir/stream" 20
new_pool
new_other_pool
exits 0 q backup "$dir/src" --tag daily
exits 0 q import "$dir/image" disk
"$QUINTET" backup --stdin --stdin-filename dump <"$dir/stream" >/dev/null 2>&1
exits 0 q volume clone disk@latest machine
exits 0 q volume snapshot machine@monday

exits 1 q copy
says 'no snapshots chosen'
exits 1 q copy --all --to "$pool"
says 'is the source pool'
exits 10 q copy --all --to "$dir/nothing"
QUINTET_TO_PASSWORD=wrong exits 12 q copy --all
exits 0 q copy --all --dry-run
says '4 snapshots would be copied'
[ "$(o snapshots --json | grep -c '"message_type":"snapshot"')" = 0 ] || fail "a dry run copied"

exits 0 q copy --all --json
[ "$(number snapshots_copied)" = 4 ] || fail "$(cat "$dir/out")"
sent=$(number data_added)
[ "$sent" -gt $((90 << 20)) ] && [ "$sent" -lt $((130 << 20)) ] || fail "sent $sent"
exits 0 o check --read-data
# The same names, times, tags, hosts; other keys.
q snapshots --json | grep '"message_type":"snapshot"' | sed 's/"added_bytes":[0-9]*//; s/"data_added[a-z_]*":[0-9]*//g' >"$dir/here"
o snapshots --json | grep '"message_type":"snapshot"' | sed 's/"added_bytes":[0-9]*//; s/"data_added[a-z_]*":[0-9]*//g' >"$dir/there"
diff "$dir/here" "$dir/there" || fail "the snapshots are called otherwise"
exits 0 o restore "latest:$dir/src" --target "$dir/back"
same "$dir/src" "$dir/back"
exits 0 o export -f raw disk "$dir/exported"
cmp "$dir/image" "$dir/exported"
exits 0 o export -f raw dump "$dir/streamed"
cmp "$dir/stream" "$dir/streamed"
exits 0 o volume clone machine@monday restored
exits 0 o volume snapshot restored@now
exits 0 o export -f raw restored@now "$dir/cloned"
cmp "$dir/image" "$dir/cloned"

# Again: nothing is read, nothing is sent.
exits 0 q copy --all --json
[ "$(number snapshots_present)$(number data_added)$(number read_bytes)" = 400 ] || fail "$(cat "$dir/out")"
exits 0 q copy --all
! grep -q 'exists in the receiving pool' "$dir/out" "$dir/err" || fail "it lists what exists: $(cat "$dir/err")"
says '4 existed there'
exits 0 q copy --all -v
[ "$(grep -c 'exists in the receiving pool' "$dir/err")" -eq 4 ] || fail "$(cat "$dir/err")"

# What changed since is sent, and little else is read.
echo more >"$dir/src/below/deep/new"
noise "$dir/change" 1
dd if="$dir/change" of="$dir/image" bs=1M seek=7 conv=notrunc status=none
{ head -c 5000000 "$dir/stream"; echo inserted; tail -c +5000001 "$dir/stream"; } >"$dir/stream2"
exits 0 q backup "$dir/src" --tag daily
exits 0 q import "$dir/image" disk
"$QUINTET" backup --stdin --stdin-filename dump <"$dir/stream2" >/dev/null 2>&1
exits 0 q copy --all --json
[ "$(number snapshots_copied)" = 3 ] && [ "$(number snapshots_present)" = 4 ] || fail "$(cat "$dir/out")"
[ "$(number data_added)" -lt $((2 << 20)) ] && [ "$(number read_bytes)" -lt $((3 << 20)) ] || fail "$(cat "$dir/out")"
exits 0 o check --read-data
exits 0 o restore "latest:$dir/src" --target "$dir/back2"
same "$dir/src" "$dir/back2"
exits 0 o export -f raw disk "$dir/exported2"
cmp "$dir/image" "$dir/exported2"
exits 0 o export -f raw dump "$dir/streamed2"
cmp "$dir/stream2" "$dir/streamed2"

# Another snapshot of the same name there is not mixed up with this one.
exits 0 q volume create clash --size 1M
exits 0 q volume snapshot clash@one
exits 0 o volume create clash --size 1M
exits 0 o volume snapshot clash@one
exits 1 q copy clash@one
says 'another snapshot with this name'
sound
