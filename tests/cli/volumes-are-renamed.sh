#!/usr/bin/env bash
# A volume takes its snapshots along when it is renamed, with and without a server; names stay clear, and one in use stays.
# `volume info` shows one with its snapshots.
. "$(dirname "$0")/common.sh"
requires qemu-io
uri() { echo "nbd+unix:///$1?socket=$dir/nbd"; }
fill() { qemu-io -f raw -c "write -P $2 0 1M" -c flush "$(uri "$1")" >"$dir/io" 2>&1 || fail "no write: $(cat "$dir/io")"; }
has() { qemu-io -f raw -r -c "read -P $2 0 1M" "$(uri "$1")" >"$dir/io" 2>&1 && ! grep -qi 'fail\|verif' "$dir/io" || fail "$1 has not $2: $(cat "$dir/io")"; }
noise disk 1
new_pool
exits 0 q import disk image
exits 0 q volume create old --size 2M
exits 0 q volume create other --size 1M
exits 0 q volume snapshot other@left
exits 0 q volume delete other
start_server --nbd-socket "$dir/nbd"
fill old 1
exits 0 q volume snapshot old@one
fill old 2
for refused in "none new:there is no volume" "old image:is the name of an image" "old other:left of an earlier volume" \
    "old a@b:invalid name" "old@one new:keeps its name" "old old:a volume \"old\" already"; do
    # shellcheck disable=SC2086
    exits 1 q volume rename ${refused%%:*}
    says "${refused#*:}"
done
exits 0 q volume rollback old@one
fill old 3
# In use.
qemu-io -f raw -c 'sleep 100000' "$(uri old)" >io 2>&1 &
client=$!
used() { q volume info old | grep -q 'to 1 connection'; }
wait_until used
exits 1 q volume rename old new
says "in use by 1 connection"
exits 0 q volume info old --json
says '"message_type":"summary".*"name":"old".*"size_bytes":2097152.*"snapshots":1,"served":true.*"clients":1'
kill $client && wait $client 2>/dev/null || true
unused() { q volume info old | grep -q 'to 0 connections'; }
wait_until unused
exits 0 q volume rename old new
says "renamed old to new"
says "snapshots in the trash keep the name old"
exits 1 q volume info old
says "no volume \"old\""
exits 0 q volume info new
says "^size *2.00 MiB"
says "^chunk size *4.00 KiB"
says "^new@one "
has new 3
! qemu-io -f raw -r -c 'read 0 1M' "$(uri old)" >io 2>&1 || fail "the old name is served"
exits 0 q volume rollback new@one
has new 1
fill new 4
kill_server
exits 0 q volume info new
says "no server runs"
exits 0 q volume rename new old
exits 0 q volume info old
says "^old@one "
start_server --nbd-socket "$dir/nbd"
has old 4
stop_server
exits 1 q volume info old@one
says "give the name of the volume"
sound
