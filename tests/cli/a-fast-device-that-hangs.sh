#!/usr/bin/env bash
# The device of the fast tier stops to answer: reads come from the pool, `status` says so, the server ends in good order,
# and the tier is used again later. The device is a FUSE file system whose process is stopped.
. "$(dirname "$0")/common.sh"
[ "$(id -u)" = 0 ] || skip "not root: cannot mount"
requires gcc pkg-config fusermount3 python3
pkg-config --exists fuse3 || skip "libfuse3-dev is not installed"
# shellcheck disable=SC2046
gcc -O1 -w -o "$dir/nas" "$here/nas/nas.c" $(pkg-config --cflags --libs fuse3)
mkdir "$dir/real" "$dir/fast" "$dir/tree"
NAS=none "$dir/nas" "$dir/real" "$dir/fast" || skip "FUSE cannot mount here"
mounted+=("$dir/fast")
device=$(pgrep -f "^$dir/nas ")
noise "$dir/tree/wanted.db" 2
printf '%s\n' 'IO class id,IO class name,Eviction priority,Allocation' '0,unclassified,100,1.00' \
    '7,extension:db&file_size:gt:1000000,10,1.00' >"$dir/mine.csv"
new_pool
exits 0 q backup "$dir/tree"
serve() {
    mkdir -p "$mount"
    mounted+=("$mount")
    start_server --mount "$mount" --policy "$dir/mine.csv" --fast "$dir/fast" --fast-size 64M --qos gc=off scrub=off
    kill -0 "$server" 2>/dev/null || skip "cannot mount here: $(tail -n 1 "$dir/serve")"
    wanted=$(find "$mount/snapshots/latest/" -name wanted.db)
}
tier_hits() {
    q policy status --json | grep policy_status | python3 -c '
import json, sys
print(next(c["tier_hits"] for c in json.load(sys.stdin)["classes"] if c["class"] == 7))'
}
serve
cmp "$wanted" "$dir/tree/wanted.db" || fail "the mount shows other bytes"
stop_server
serve
is_ready() { q status | matches 'fast tier: in use; [1-9]'; }
wait_until is_ready
kill -STOP "$device"
# It ends although the device does not answer before it is continued below.
timeout 120 cmp "$wanted" "$dir/tree/wanted.db" || fail "a read did not end beside a device that hangs: $?"
q status >"$dir/out" || true
matches 'fast tier: off: .*does not answer' <"$dir/out" || fail "the tier is still in use: $(cat "$dir/out")"
# The pool is closed in good order. The kernel keeps the process until the device has answered its last request.
kill -TERM "$server"
is_closed() { [ ! -e "$pool/control" ]; }
wait_until is_closed
exits 0 q backup "$dir/tree"
kill -CONT "$device"
stop_server
serve
wait_until is_ready
cmp "$wanted" "$dir/tree/wanted.db" || fail "the mount shows other bytes"
[ "$(tier_hits)" -ge 10 ] || fail "the tier is not used again: $(q policy status)"
stop_server
