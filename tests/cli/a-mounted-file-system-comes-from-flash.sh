#!/usr/bin/env bash
# ext4 in a volume, on a loop device over a file of the server's mount: it is listed, its small files are read, then all
# of it. After a restart metadata and small files come from flash, and what was read in bulk does not.
. "$(dirname "$0")/common.sh"
. "$here/loop.sh"
. "$here/classed-disk.sh"
requires_loop
[ -e /dev/fuse ] || skip "/dev/fuse is missing"
requires mkfs.ext4 python3
can_make ext4 || skip "no ext4 here"
mkdir "$dir/fast"
classed_disk 10 30
new_pool
exits 0 q import "$dir/image" stored
exits 0 q volume clone stored disk
learned() { policy_status && grep -q '"complete":true' "$dir/status.json" && ! grep -q '"recognised":0,' "$dir/status.json"; }
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
