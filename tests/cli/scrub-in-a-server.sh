#!/usr/bin/env bash
# A server scrubs in the background: start, pause, status; a restart goes on; damage is said, named and noted;
# what clients of the server have read is not read again.
. "$(dirname "$0")/common.sh"
requires nbdcopy
mkdir "$dir/src"
noise "$dir/src/noise" 8
noise "$dir/image" 32
new_pool --parity 0
exits 0 q backup "$dir/src"
exits 0 q import "$dir/image" disk

scrub_says() {
    q scrub status | matches "$1"
}
# field NAME: a number of the last pass that ended.
field() {
    q scrub status --json | sed -n "s/.*\"last\":{[^}]*\"$1\":\([0-9]*\).*/\1/p"
}

start_server --nbd-socket "$dir/nbd"
exits 0 q scrub status
says 'at rest'
exits 0 q scrub start --limit 1M
says 'under way'
exits 0 q scrub pause
says 'paused'
stop_server
# Paused stays paused, over a restart.
start_server --nbd-socket "$dir/nbd"
exits 0 q scrub status
says 'paused'
exits 0 q scrub start --limit 1M
stop_server
exits 0 q scrub status
says 'under way'
# What was under way goes on by itself.
start_server --nbd-socket "$dir/nbd"
wait_until scrub_says 'in full from'
exits 0 q status
says 'verified: in full'
all=$(field read_bytes)
[ "$all" -gt $((40 << 20)) ] || fail "read only $all"

# What a client reads from the device while the pass waits is not read again. What was just written is in the system's
# page cache, and reading that says nothing about the device: the system lets go of it first.
exits 0 q scrub start --limit 1
sync -f "$pool"
find "$pool/containers" -type f -exec dd if={} iflag=nocache count=0 status=none \;
nbdcopy "nbd+unix:///disk?socket=$dir/nbd" "$dir/copy"
cmp "$dir/image" "$dir/copy"
exits 0 q scrub start
wait_until scrub_says 'at rest'
read=$(field read_bytes) cached=$(field verified_by_readers_bytes)
# How much the system had read ahead, and so cannot prove anything, depends on the load: no more than the rest is read.
[ "$cached" -gt $((12 << 20)) ] || fail "$cached bytes were verified by readers, $read read"
[ "$((read + cached))" -ge $((40 << 20)) ] && [ "$read" -le $((all - cached + (2 << 20))) ] || fail "$read and $cached of $all"

# Damage: said at once, noted, and named at the end of the pass.
container=$(find "$pool/containers" -type f -size +1M | sort | head -n 1)
printf '\377\376\375' | dd of="$container" bs=1 seek=$(($(stat -c %s "$container") / 2)) conv=notrunc status=none
exits 0 q scrub start
wait_until grep -q 'affected' "$dir/serve"
grep -q 'warning: damage:' "$dir/serve" || fail "$(cat "$dir/serve")"
grep -q 'damage reaches' "$dir/serve" || fail "$(cat "$dir/serve")"
exits 21 q status
says '1 damaged place'
says 'state: DAMAGED'
exits 0 q backup "$dir/src"
exits 0 q import "$dir/image" disk
stop_server
sound
