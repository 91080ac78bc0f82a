#!/usr/bin/env bash
# A server with a policy classifies reads of files in its mount by path and size. Those of a class go to the fast tier,
# and come from there after a restart; unclassified ones do not. A volume's file that is opened with O_DIRECT says so.
. "$(dirname "$0")/common.sh"
[ -e /dev/fuse ] || skip "/dev/fuse is missing"
requires python3
mkdir "$dir/tree" "$dir/fast"
noise "$dir/tree/wanted.db" 2
noise "$dir/tree/other.bin" 2
cat >"$dir/mine.csv" <<'CSV'
IO class id,IO class name,Eviction priority,Allocation
0,unclassified,100,1.00
7,extension:db&file_size:gt:1000000,10,1.00
8,direct,150,1.00
CSV
new_pool
exits 0 q volume create disk --size 4M
exits 0 q backup "$dir/tree"
# class CLASS FIELD: a number of `policy status`.
class() {
    q policy status --json | grep policy_status | python3 -c '
import json, sys
print(next(c[sys.argv[2]] for c in json.load(sys.stdin)["classes"] if c["class"] == int(sys.argv[1])))' "$1" "$2"
}
serve() {
    mkdir -p "$mount"
    mounted+=("$mount")
    start_server --mount "$mount" --policy "$dir/mine.csv" --fast "$dir/fast" --fast-size 64M --qos gc=off scrub=off
    grep -q "on the same file system as the pool" "$dir/serve" || fail "nobody said that --fast is not faster"
    if ! kill -0 "$server" 2>/dev/null; then
        grep -qi 'Operation not permitted\|Permission denied\|fusermount3' "$dir/serve" || fail "$(cat "$dir/serve")"
        skip "cannot mount here: $(tail -n 1 "$dir/serve")"
    fi
    wanted=$(find "$mount/snapshots/latest/" -name wanted.db)
    other=$(find "$mount/snapshots/latest/" -name other.bin)
}
serve
cmp "$wanted" "$dir/tree/wanted.db" && cmp "$other" "$dir/tree/other.bin" || fail "the mount shows other bytes"
[ "$(class 7 read_bytes)" -ge 2097152 ] || fail "wanted.db is not class 7: $(q policy status)"
[ "$(class 0 read_bytes)" -ge 2097152 ] || fail "other.bin is not class 0: $(q policy status)"
stop_server
serve
# Before it has read its directories it has nothing.
is_ready() { q status | matches 'fast tier: in use; [1-9]'; }
wait_until is_ready
cmp "$wanted" "$dir/tree/wanted.db" && cmp "$other" "$dir/tree/other.bin" || fail "the mount shows other bytes"
[ "$(class 7 tier_hits)" -ge 10 ] || fail "wanted.db did not come from the fast tier: $(q policy status)"
[ "$(class 0 tier_hits)" -eq 0 ] || fail "unclassified files came from the fast tier: $(q policy status)"
volume=$(find "$mount" -path '*volumes/disk*' -type f | head -n 1)
[ -n "$volume" ] || fail "no volume in the mount: $(find "$mount" -maxdepth 3)"
[ "$(class 8 read_bytes)" -eq 0 ] || fail "read past the cache before: $(q policy status)"
dd if=/dev/urandom of="$volume" bs=64K count=4 conv=notrunc,fsync status=none
[ "$(class 8 written_bytes)" -eq 0 ] || fail "an ordinary write is direct: $(q policy status)"
dd if=/dev/urandom of="$volume" bs=64K count=4 conv=notrunc,fsync oflag=direct status=none
dd if="$volume" of=/dev/null bs=64K count=8 iflag=direct status=none
[ "$(class 8 written_bytes)" -eq 262144 ] || fail "direct writes have no class: $(q policy status)"
[ "$(class 8 read_bytes)" -eq 524288 ] || fail "direct reads have no class: $(q policy status)"
stop_server
