#!/usr/bin/env bash
# The device of the fast tier stops to answer: reads come from the pool, `status` says so, the server ends in good order,
# and the tier is used again later. The device is a FUSE file system whose process is stopped: first below the tier
# itself, where threads read for it, then below ext4, where reads are given up without threads.
. "$(dirname "$0")/common.sh"
[ "$(id -u)" = 0 ] || skip "not root: cannot mount"
requires gcc pkg-config fusermount3 python3
pkg-config --exists fuse3 || skip "libfuse3-dev is not installed"
# shellcheck disable=SC2046
gcc -O1 -w -o "$dir/nas" "$here/nas/nas.c" $(pkg-config --cflags --libs fuse3)
mkdir "$dir/real" "$dir/nas-mount" "$dir/ext4" "$dir/tree"
NAS=none "$dir/nas" "$dir/real" "$dir/nas-mount" || skip "FUSE cannot mount here"
mounted+=("$dir/nas-mount")
device=$(pgrep -f "^$dir/nas ")
noise "$dir/tree/wanted.db" 2
printf '%s\n' 'IO class id,IO class name,Eviction priority,Allocation' '0,unclassified,100,1.00' \
    '7,extension:db&file_size:gt:1000000,10,1.00' >"$dir/mine.csv"
new_pool
exits 0 q backup "$dir/tree"
serve() {
    mkdir -p "$mount"
    mounted+=("$mount")
    start_server --mount "$mount" --policy "$dir/mine.csv" --fast "$fast" --fast-size 64M --qos gc=off scrub=off
    kill -0 "$server" 2>/dev/null || skip "cannot mount here: $(tail -n 1 "$dir/serve")"
    # Before that, what is read does not enter.
    wait_until is_in_use
    wanted=$(find "$mount/snapshots/latest/" -name wanted.db)
}
is_in_use() { q status | matches 'fast tier: in use'; }
is_ready() { q status | matches 'fast tier: in use; [1-9]'; }
tier_hits() {
    q policy status --json | grep policy_status | python3 -c '
import json, sys
print(next(c["tier_hits"] for c in json.load(sys.stdin)["classes"] if c["class"] == 7))'
}
# hangs DIRECTORY: a tier there.
hangs() {
    fast=$1
    serve
    cmp "$wanted" "$dir/tree/wanted.db" || fail "the mount shows other bytes"
    stop_server
    serve
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
    wait "$server" || fail "the server exited with $?: $(cat "$dir/serve")"
    serve
    wait_until is_ready
    cmp "$wanted" "$dir/tree/wanted.db" || fail "the mount shows other bytes"
    [ "$(tier_hits)" -ge 10 ] || fail "the tier is not used again: $(q policy status)"
    stop_server
}
hangs "$dir/nas-mount"
# Only a device without the page cache of its file system in front of it hangs.
requires mkfs.ext4 losetup
truncate -s 128M "$dir/nas-mount/image"
mkfs.ext4 -q "$dir/nas-mount/image"
loop=$(losetup --find --show --direct-io=on "$dir/nas-mount/image") || skip "no loop device: only part of it was tested"
trap 'kill -CONT "$device"; losetup --detach "$loop"; finish' EXIT
timeout 60 mount "$loop" "$dir/ext4" || skip "cannot mount ext4: only part of it was tested"
mounted=("$dir/ext4" "${mounted[@]}")
hangs "$dir/ext4"
