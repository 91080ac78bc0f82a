#!/usr/bin/env bash
# Real clients write volumes, several at once, and read the same bytes back: at once, from a snapshot,
# after a restart, and after the server was killed, whatever was flushed.
. "$(dirname "$0")/common.sh"
requires qemu-img nbdcopy nbdinfo fio cmp
fio --enghelp=nbd >/dev/null 2>&1 || skip "fio has no nbd engine"
export QUINTET_MEMORY=128M
new_pool
uri() { echo "nbd+unix:///$1?socket=$dir/nbd"; }
# Small, so that checkpoints happen on the way.
serve() { start_server --nbd-socket "$dir/nbd" --journal 32M; }
# fio NAME ARGUMENT...: on volume NAME, 32 requests under way.
run_fio() {
    local name=$1
    shift
    fio --name=verify --ioengine=nbd --uri="$(uri "$name")" --iodepth=32 --size=64m --verify=crc32c \
        --verify_fatal=1 --verify_state_save=0 "$@" --output="$dir/fio.$name" >/dev/null || fail "$name: $(tail -5 "$dir/fio.$name")"
}
for number in 1 2 3; do exits 0 q volume create "v$number" --size 64M --chunk-size $((2 << number))K; done
serve
noise "$dir/noise" 40
truncate -s 64M "$dir/noise"
nbdcopy --flush "$dir/noise" "$(uri v1)"
nbdcopy "$(uri v1)" "$dir/copy"
cmp "$dir/noise" "$dir/copy"
exits 0 q volume snapshot v1@noise
run_fio v2 --rw=randwrite --bsrange=512-128k &
one=$!
run_fio v3 --rw=randwrite --bs=16k --fsync=64 &
two=$!
run_fio v1 --rw=randrw --bsrange=4k-64k
wait $one && wait $two
# The snapshot holds what it held, read-only; so does a clone, writable.
exits 0 q volume clone v1@noise clone
for name in v1@noise clone; do
    qemu-img compare -f raw -F raw "$dir/noise" "$(uri $name)" >/dev/null || fail "$name differs"
done
nbdinfo --is readonly "$(uri v1@noise)" || fail "a snapshot can be written"
! nbdinfo --is readonly "$(uri clone)" || fail "a clone cannot be written"
for name in v1 v2 v3; do qemu-img convert -q -f raw -O raw "$(uri $name)" "$dir/$name"; done
stop_server
exits 0 q volume list
sound
serve
for name in v1 v2 v3; do
    qemu-img compare -f raw -F raw "$dir/$name" "$(uri $name)" >/dev/null || fail "$name differs after a restart"
done
# Flushed, then killed: again and again, until checkpoints and the journal were hit.
for round in 1 2 3 4 5; do
    noise "$dir/part" 6
    nbdcopy --flush "$dir/noise" "$(uri v1)"
    dd if="$dir/part" of="$dir/noise" bs=1M seek=$((round * 7)) conv=notrunc status=none
    background writer fio --name=writer --ioengine=nbd --uri="$(uri v2)" --rw=randwrite --bs=4k --size=64m --time_based --runtime=60 --output=/dev/null
    writer=$!
    nbdcopy --flush "$dir/noise" "$(uri v1)"
    kill -9 "$server"
    wait "$server" 2>/dev/null || true
    wait $writer || true
    serve
    qemu-img compare -f raw -F raw "$dir/noise" "$(uri v1)" >/dev/null || fail "flushed bytes are gone, round $round"
    qemu-img compare -f raw -F raw "$dir/v3" "$(uri v3)" >/dev/null || fail "v3 differs, round $round"
done
stop_server
sound
# Killed, and nobody serves: commands replay the journal themselves.
serve
nbdcopy --flush "$dir/noise" "$(uri v3)"
kill_server
exits 0 q volume snapshot v3@killed
exits 0 q volume delete v2
serve
qemu-img compare -f raw -F raw "$dir/noise" "$(uri v3@killed)" >/dev/null || fail "v3@killed differs"
stop_server
sound
