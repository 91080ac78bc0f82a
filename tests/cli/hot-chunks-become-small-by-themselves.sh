#!/usr/bin/env bash
# A server copies hot chunks that random reads fetch in large regions into small ones by itself: not without such reads,
# not when it is switched off, not twice for the same chunks, and at most 3 % of the image. A kill at any moment, a full
# disk, damage, and a user's own defrag do no harm: the copies stay, and every byte is the same.
. "$(dirname "$0")/common.sh"
requires qemu-io cmp nbdcopy
# 32 MiB that compress to about two thirds.
head -c 24M /dev/urandom | base64 -w 0 | head -c 32M >"$dir/image"
db="nbd+unix:///db?socket=$dir/nbd"
serve() {
    start_server --nbd-socket "$dir/nbd" "$@"
}
# field NAME: of what `defrag status` says.
field() {
    q defrag status --json | grep -o "\"$1\":\"\?[^,\"]*" | head -n 1 | sed 's/.*:"\?//'
}
# Reads 40 chunks here and there, each in its own request, as a database does, and again after restarts.
reads() {
    local commands=() nth round
    for nth in $(seq 0 39); do commands+=(-c "read $(((nth * 1237 + 411) % 2048 * 16 + nth % 4 * 4))k 4k"); done
    for round in 1 2 3; do
        serve --qos hot-chunks=off
        qemu-io -f raw "$db" "${commands[@]}" >"$dir/io" || fail "$(cat "$dir/io")"
        stop_server
    done
}
hot_pool() {
    # Damage stays: nothing restores it.
    new_pool --parity 0
    exits 0 q import --region-size 1536K "$dir/image" image
    serve --qos hot-chunks=off
    exits 0 q volume clone image db
    stop_server
    reads
}
is_done() { [ "$(field stage)" = done ] && [ "$(field by)" = server ]; }
same_bytes() {
    rm -f "$dir/after"
    nbdcopy "$db" "$dir/after"
    cmp "$dir/image" "$dir/after" || fail "other bytes"
}

# Nobody has read anything: nothing begins. Neither does it where it is switched off.
new_pool
exits 0 q import --region-size 1536K "$dir/image" image
status_says() { q status | matches "$1"; }
serve
wait_until status_says 'hot chunks: next when random reads fetch much more than they need'
stop_server
rm -rf "$pool"
hot_pool
serve --qos hot-chunks=off
exits 0 q defrag status
says 'no run yet'
exits 0 q status
says 'hot chunks: only by command'
# Switched on, it begins.
exits 0 q qos set hot-chunks=3
wait_until is_done
wait_until grep -q 'defrag: done: .* of hot chunks copied into small regions; a cold read of one fetched' "$dir/serve"
grep -q 'defrag: begins by itself: random reads of 640 KiB' "$dir/serve" || fail "$(cat "$dir/serve")"
exits 0 q defrag status --json
written=$(grep -o '"written_bytes":[0-9]*' "$dir/out" | cut -d: -f2)
[ "$written" -gt 600000 ] && [ "$written" -le 1006632 ] || fail "$written bytes: $(cat "$dir/out")"
exits 0 q status
says 'last run, by the server itself: hot chunks .* copied into small ones'
says 'copied into small regions by the server itself in 1 run'
exits 0 q status --json
[ "$(grep -o '"copied_bytes":[0-9]*' "$dir/out" | tail -n 1 | cut -d: -f2)" -eq "$written" ] || fail "$(cat "$dir/out")"
same_bytes
began=$(field began)
stop_server
# The same chunks are read cold again: nothing begins, though the server is new. (The last run is too recent, and once
# it is not, lab/sim looks.)
reads
serve
wait_until status_says 'hot chunks: next not before'
sleep 1
[ "$(field began)" = "$began" ] || fail "again: $(q defrag status --json)"
exits 0 q defrag --json
[ "$(number written_bytes)" -eq 0 ] || fail "left over: $(cat "$dir/out")"
[ "$(field by)" = command ] || fail "$(q defrag status --json)"
stop_server
sound
rm -rf "$pool"

# Killed at any moment: the next server goes on, and nothing is lost.
hot_pool
cp -r "$pool" "$dir/hot"
for nth in $(seq 8); do
    serve
    sleep "0.$((RANDOM % 5))$((RANDOM % 10))"
    kill_server
    sound
done
serve
wait_until is_done
same_bytes
stop_server
sound

# Damage in the image: what can be read is copied, the rest is said.
rm -rf "$pool"
cp -r "$dir/hot" "$pool"
rm -rf "$QUINTET_CACHE_DIR"
largest=$(find "$pool/containers" -type f -printf '%s %p\n' | sort -n | tail -n 1 | cut -d' ' -f2)
size=$(stat -c %s "$largest")
chmod u+w "$largest"
printf '\xa5\x5a\xa5\x5a' | dd of="$largest" bs=1 seek=$((size / 2)) conv=notrunc status=none
serve
wait_until is_done
stop_server
grep -q 'defrag: a range was not moved' "$dir/serve" || fail "$(cat "$dir/serve")"
exits 21 q check --read-data

# A full disk: nothing begins, and the server serves.
rm -rf "$pool"
if [ "$(id -u)" -eq 0 ]; then
    mount_tmpfs "$dir/small" 120M
    pool=$dir/small/pool
    export QUINTET_REPOSITORY=$pool
    cp -r "$dir/hot" "$pool"
    rm -rf "$QUINTET_CACHE_DIR"
    serve --qos hot-chunks=off
    free=$(df --output=avail -B1 "$dir/small" | tail -n 1)
    head -c $((free - (20 << 20))) /dev/zero >"$dir/small/other"
    exits 0 q qos set hot-chunks=3
    wait_until status_says 'hot chunks: next when more space is free'
    [ "$(field stage)" = '' ] || fail "$(q defrag status --json)"
    same_bytes
    rm "$dir/small/other"
    stop_server
    sound
fi
