#!/usr/bin/env bash
# Two commands at once through a server: both end well; Ctrl-C ends one of them with 130 and no other.
. "$(dirname "$0")/common.sh"
new_pool
noise "$dir/noise" 20
mkdir "$dir/src" && cp "$dir/noise" "$dir/src/a"
start_server
mkfifo "$dir/pipe"
"$QUINTET" backup --stdin --stdin-filename long <"$dir/pipe" >"$dir/long" 2>&1 &
long=$!
exec 7>"$dir/pipe"
head -c 5000000 "$dir/noise" >&7
background tree "$QUINTET" backup "$dir/src"
tree=$!
waits() { grep -q 'waits for .quintet backup --stdin' "$dir/$1"; }
wait_until waits tree
background other "$QUINTET" tag --add x latest
other=$!
wait_until waits other
# Who waits can leave, too.
kill -INT $other
code=0
wait $other || code=$?
[ $code -eq 130 ] || fail "who waited exited with $code: $(cat "$dir/other")"
# Reading waits for nobody.
exits 0 q snapshots
kill -INT $long
code=0
wait $long || code=$?
[ $code -eq 130 ] || fail "exited with $code: $(cat "$dir/long")"
exec 7>&-
wait $tree || fail "the other backup failed: $(cat "$dir/tree")"
[ "$(snapshots)" -eq 1 ] || fail "$(snapshots) snapshots, expected 1"
pids=()
for number in 1 2 3 4; do
    background "tree$number" "$QUINTET" backup "$dir/src" --force
    pids+=($!)
done
for pid in "${pids[@]}"; do wait $pid || fail "one of four failed: $(cat "$dir"/tree?)"; done
[ "$(snapshots)" -eq 5 ] || fail "$(snapshots) snapshots, expected 5"
stop_server
sound
