#!/usr/bin/env bash
# A disk of 300 MiB that was filled in ten ways: `gc` alone makes its pool usable again, each time, with every acknowledged byte.
# seconds: 600
. "$(dirname "$0")/common.sh"
requires cmp qemu-io nbdcopy
requires_root
small=$dir/small
log=$dir/way

# A small file system of its own: ext4 without a share for root where it can be had.
small_disk() {
    mkdir -p "$small"
    if command -v mkfs.ext4 >/dev/null && truncate -s 300M "$dir/image" &&
        mkfs.ext4 -q -m 0 -E lazy_itable_init=0,lazy_journal_init=0 -J size=4 "$dir/image" &&
        mount -o loop "$dir/image" "$small" 2>/dev/null; then
        mounted+=("$small")
        return
    fi
    mount_tmpfs "$small" 300M
}

# begin: an empty pool on an empty disk, with a snapshot of a tree that is never forgotten.
begin() {
    way=$1
    rm -rf "$small"/* "$dir/back"
    export QUINTET_REPOSITORY=$small/pool
    pool=$QUINTET_REPOSITORY
    new_pool
    exits 0 q backup "$dir/keep"
    [ -s "$pool/reserve" ] || fail "$way: no reserve"
}

free_bytes() { df --output=avail -B1 "$small" | tail -n 1; }

# Takes every byte that is left.
foreign() { dd if=/dev/zero of="$small/foreign" bs=64K 2>/dev/null || true; }

# until_full COMMAND...: until it says that the disk is full; ten times at most.
until_full() {
    local turn code
    for turn in 1 2 3 4 5 6 7 8 9 10; do
        code=0
        "$@" "$turn" >"$log" 2>&1 || code=$?
        [ $code -eq 0 ] || return 0
    done
    fail "$way: the disk does not fill: $(free_bytes)"
}

collected() { exits 0 q gc ${gc_options[@]+"${gc_options[@]}"}; cp "$dir/out" "$dir/gc-$way"; }
# room_for COMMAND...: beside a server, after more of gc if need be. What clients wrote into memory before the disk was
# full is stored first, in the space that gc has freed. What that replaces is garbage for the next gc. Where that needs more
# than there is, once in dozens of runs, something must go, as the message says: the new image.
room_for() {
    local turn new
    for turn in 1 2 3 4 5 6 7 8; do
        "$@" >"$log" 2>&1 && return
        [ -n "$server" ] || break
        if [ $turn -eq 4 ] && new=$(snapshot_of "new-$way") && [ -n "$new" ]; then
            exits 0 q forget "$new"
            gc_options=(--trash-period 0)
            echo "$way: the new image went"
        fi
        collected
    done
    fail "$way: no room for $*: $(cat "$log")"
}
# snapshot_of NAME: its short id.
snapshot_of() { q snapshots --json | grep "\"name\":\"$1\"" | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p' | head -n 1; }

# usable [OPTION...]: gc and nothing else; then what was acknowledged is there, and there is room for
# something new.
usable() {
    gc_options=("$@")
    collected
    noise "$dir/new" 12
    room_for q import "$dir/new" "new-$way"
    exits 0 q export "new-$way" "$dir/new.back" --force
    cmp "$dir/new" "$dir/new.back" || fail "$way: new bytes"
    rm -f "$dir/new.back"
    rm -rf "$dir/back"
    first=$(q snapshots --json | grep '"message_type":"snapshot"' | head -n 1 | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p')
    exits 0 q restore "$first:$dir/keep" --target "$dir/back"
    same "$dir/keep" "$dir/back"
    sound
    echo "$way: $(free_bytes) bytes free"
}

mkdir "$dir/keep" "$dir/src"
noise "$dir/keep/file" 8
noise "$dir/fill" 60
small_disk

# 1. Backups of new bytes, until one is refused.
begin backups
for turn in 1 2 3 4; do
    noise "$dir/src/file$turn" 45
    exits 0 q backup "$dir/src/file$turn"
done
# What the refused one left is all that can come back.
noise "$dir/src/large" 120
exits 1 q backup "$dir/src/large"
says 'disk is full'
foreign
usable
rm -f "$dir/src"/*

# 2. An import that the disk has no room for: what it left goes.
begin import
noise "$dir/large" 290
exits 1 q import "$dir/large" large
says 'disk is full'
foreign
usable

# 3. A stream.
begin stream
code=0
q backup --stdin --stdin-filename dump <"$dir/large" >"$log" 2>&1 || code=$?
[ $code -eq 1 ] && grep -q 'disk is full' "$log" || fail "$way: $code: $(cat "$log")"
foreign
usable

# 4. Copies from another pool.
begin copies
export QUINTET_TO_REPOSITORY=$small/pool
(export QUINTET_REPOSITORY=$dir/source && q init --no-encryption && q import "$dir/large" large) >"$log" 2>&1 || fail "$(cat "$log")"
code=0
QUINTET_REPOSITORY=$dir/source q copy latest >"$log" 2>&1 || code=$?
[ $code -ne 0 ] || fail "copies: taken"
unset QUINTET_TO_REPOSITORY
rm -rf "$dir/source"
foreign
usable

# 5. Backups that were killed, again and again, each with a container or two on the disk.
stored() { find "$pool/containers" -type f | wc -l; }
# Full disks end it too: the backup then waits for its stream, and says so only later.
has_stored() { [ "$(stored)" -gt $((before + 1)) ] || [ "$(free_bytes)" -lt 36000000 ] || ! kill -0 $one; }
begin killed
mkfifo "$dir/stream"
for turn in 1 2 3 4 5 6; do
    noise "$dir/fill" 60
    before=$(stored)
    # A stream that does not end: the backup cannot be done before it is killed.
    { cat "$dir/fill"; exec sleep 1000; } >"$dir/stream" 2>/dev/null &
    feeder=$!
    "$QUINTET" backup --stdin --stdin-filename fill <"$dir/stream" >"$log" 2>&1 &
    one=$!
    wait_until has_stored
    kill -9 $one 2>/dev/null || true
    kill $feeder 2>/dev/null || true
    wait $one $feeder 2>/dev/null || true
done
foreign
usable
rm "$dir/large"

# 6. An image that is forgotten, of which parts are still needed, and collections that were killed
# while they copied.
begin gc-killed
noise "$dir/fill" 100
exits 0 q import "$dir/fill" disk
for at in 3 17 33 54 71 90; do dd if="$dir/fill" of="$dir/part" bs=1M skip=$at count=2 oflag=append conv=notrunc status=none; done
exits 0 q import "$dir/part" part
forgotten=$(q snapshots --json | grep '"name":"disk"' | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p' | head -n 1)
exits 0 q forget "$forgotten"
foreign
for turn in 1 2 3; do
    "$QUINTET" gc --trash-period 0 >"$log" 2>&1 &
    one=$!
    # While it copies: what it writes is needed, and so is what it copies from.
    wait_until has_moved written $one $((turn * 3000000))
    kill -9 $one 2>/dev/null || true
    wait $one 2>/dev/null || true
done
usable --trash-period 0
exits 0 q export part "$dir/part.back" --force
cmp "$dir/part" "$dir/part.back" || fail "gc-killed: an acknowledged image"

uri() { echo "nbd+unix:///$1?socket=$dir/nbd"; }
serve_volumes() { start_server --nbd-socket "$dir/nbd" --journal 16M --qos gc=off scrub=off; }
# Two volumes: what is written to the first is flushed and stays, the second is to fill the disk.
volumes() {
    exits 0 q volume create safe --size 20M
    exits 0 q volume create v --size 100M
    serve_volumes
    noise "$dir/safe" 20
    nbdcopy --flush "$dir/safe" "$(uri safe)" || fail "$way: the first bytes"
}
safe_is_there() {
    rm -f "$dir/safe.back"
    nbdcopy "$(uri safe)" "$dir/safe.back" || fail "$way: cannot be read"
    cmp "$dir/safe" "$dir/safe.back" || fail "$way: acknowledged bytes of a volume"
}
overwrite() { noise "$dir/fill" 100 && nbdcopy --flush "$dir/fill" "$(uri v)"; }
rewritable() {
    noise "$dir/fill" 10
    room_for nbdcopy --flush "$dir/fill" "$(uri v)"
}

# 7. A volume that is overwritten in a server that does not collect by itself. gc goes through the
# server.
begin volume-writes
volumes
until_full overwrite
foreign
usable
rewritable
safe_is_there
stop_server

# 8. The same, and the server is killed: gc without one.
begin volume-writes-killed
volumes
until_full overwrite
kill_server
foreign
usable
serve_volumes
rewritable
safe_is_there
stop_server

# 9. Writes between snapshots. With not a byte free the snapshots are forgotten, and the volume is
# trimmed and deleted.
begin snapshots
volumes
snapshot_and_write() { q volume snapshot "v@$1" && noise "$dir/fill" 50 && nbdcopy --flush "$dir/fill" "$(uri v)"; }
until_full snapshot_and_write
foreign
qemu-io -f raw -t none "$(uri v)" -c 'discard 0 50M' -c flush >"$log" 2>&1 || fail "$way: no trim: $(cat "$log")"
! grep -qi fail "$log" || fail "$way: no trim: $(cat "$log")"
for name in $(q volume list --json | grep -o '"v@[0-9]*"' | tr -d '"' | sort -u); do exits 0 q forget "$name"; done
exits 0 q volume delete v
usable --trash-period 0
safe_is_there
stop_server

# 10. A foreign file takes the rest of a pool of parts that are needed: nothing but copying gives room back.
begin foreign
noise "$dir/fill" 120
exits 0 q volume create v --size 120M
start_server --nbd-socket "$dir/nbd" --journal 16M --qos gc=off scrub=off
nbdcopy --flush "$dir/fill" "$(uri v)" || fail "$way: fill"
script=()
for at in $(seq 0 2 118); do script+=(-c "discard ${at}M 1M"); done
qemu-io -f raw -t none "$(uri v)" "${script[@]}" -c flush >"$log" 2>&1 || fail "$way: $(cat "$log")"
foreign
usable
for at in 1 51 119; do
    rm -f "$dir/part.back"
    nbdcopy "$(uri v)" "$dir/part.back"
    cmp -s <(dd if="$dir/fill" bs=1M skip=$at count=1 status=none) <(dd if="$dir/part.back" bs=1M skip=$at count=1 status=none) ||
        fail "$way: byte of MiB $at"
done
stop_server
