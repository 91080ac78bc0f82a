#!/usr/bin/env bash
# ext4 in a volume, on a loop device over a file of the server's mount: it is listed, its small files are read, then all
# of it. After a restart metadata and small files come from flash, and what was read in bulk does not.
. "$(dirname "$0")/common.sh"
. "$here/loop.sh"
requires_loop
[ -e /dev/fuse ] || skip "/dev/fuse is missing"
requires mkfs.ext4 python3
can_make ext4 || skip "no ext4 here"
mkdir "$dir/tree" "$dir/fast"
for n in $(seq 10); do
    mkdir "$dir/tree/d$n"
    for m in $(seq 30); do head -c 6000 /dev/urandom >"$dir/tree/d$n/$m"; done
done
noise "$dir/tree/large" 40
truncate -s 128M "$dir/image"
mkfs.ext4 -q -F -b 4096 -d "$dir/tree" "$dir/image" || fail "mkfs.ext4"
cat >"$dir/mine.csv" <<'CSV'
IO class id,IO class name,Eviction priority,Allocation
0,unclassified,160,1.00
1,metadata,0,1.00
2,journal,5,0.10
# fast: 2,200,0.05
3,file_size:le:65536,10,1.00
4,file_size:gt:65536,150,1.00
CSV
new_pool
exits 0 q import "$dir/image" stored
exits 0 q volume clone stored disk
status() { q policy status --json | grep policy_status >"$dir/status.json"; }
# class CLASS FIELD: a number of `policy status`.
class() {
    status
    python3 -c '
import json, sys
print(next(c[sys.argv[3]] for c in json.load(open(sys.argv[1]))["classes"] if c["class"] == int(sys.argv[2])))' \
        "$dir/status.json" "$1" "$2"
}
is_ready() { q status | matches 'fast tier: in use'; }
learned() { status && grep -q '"complete":true' "$dir/status.json" && ! grep -q '"recognised":0,' "$dir/status.json"; }
serve() {
    mkdir -p "$mount"
    mounted+=("$mount")
    start_server --mount "$mount" --policy "$dir/mine.csv" --fast "$dir/fast" --fast-size 64M --qos gc=off scrub=off
    if ! kill -0 "$server" 2>/dev/null; then
        grep -qi 'Operation not permitted\|Permission denied\|fusermount3' "$dir/serve" || fail "$(cat "$dir/serve")"
        skip "cannot mount here: $(tail -n 1 "$dir/serve")"
    fi
    wait_until is_ready
    disk=$mount/volumes/disk
}
# look: the file system is unmounted before the server ends.
look() {
    attach on "$disk"
    wait_until learned
    [ "$(find "$dir/inner" -type f | wc -l)" -ge 301 ] || fail "files are missing"
    find "$dir/inner" -type f -size -32k -exec cat {} + | cksum >"$dir/sum"
    [ "$(cat "$dir/sum")" = "$(cd "$dir/inner" && find . -type f -size -32k -exec cat {} + | cksum)" ] || fail "read twice"
    cmp "$dir/tree/large" "$dir/inner/large" || fail "other bytes"
    dd if="$disk" of=/dev/null bs=1M status=none
    metadata=$(class 1 tier_hits) small=$(class 3 tier_hits) bulk=$(class 4 tier_hits)
    detach
}
serve
look
[ "$small" -le 10 ] || fail "the tier was empty, and small files came from it: $(q policy status)"
stop_server
for round in 1 2; do
    serve
    look
    echo "round $round: metadata $metadata, small files $small, the large file $bulk"
    [ "$metadata" -ge 5 ] || fail "metadata did not come from flash: $(q policy status)"
    [ "$small" -ge 50 ] || fail "small files did not come from flash: $(q policy status)"
    [ "$bulk" -le $((small / 10)) ] || fail "a scan went to flash: $(q policy status)"
    stop_server
done
sound
