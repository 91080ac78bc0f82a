#!/usr/bin/env bash
# The pool's disk fills up under volumes: clients hear of it, what was flushed is there, room can be
# given back, and with room everything goes on.
. "$(dirname "$0")/common.sh"
requires qemu-io nbdcopy qemu-img curl
mount_tmpfs "$dir/small" 96M
pool=$dir/small/pool
export QUINTET_REPOSITORY=$pool
new_pool
exits 0 q volume create web --size 200M
exits 0 q volume create other --size 1M
exits 0 q status
says 'ONLINE'
uri() { echo "nbd+unix:///$1?socket=$dir/nbd"; }
on() {
    local volume=$1
    shift
    qemu-io -f raw -t none "$(uri "$volume")" "$@" >"$dir/io" 2>&1 || return 1
    ! grep -qi 'fail' "$dir/io"
}
metric() {
    curl -sf "$url" >"$dir/metrics" && grep -qx "$1" "$dir/metrics"
}
noise "$dir/noise" 200
start_server --nbd-socket "$dir/nbd" --journal 8M --metrics 127.0.0.1:0
url=$(sed -n 's/^metrics at //p' "$dir/serve")
on other -c 'write -P 9 0 1M' -c flush || fail "$(cat "$dir/io")"
metric 'quintet_failing 0' || fail "failing before anything did"
! nbdcopy --flush "$dir/noise" "$(uri web)" 2>"$dir/err" || fail "200 MB in 96"
grep -qi 'no space' "$dir/err" || fail "$(cat "$dir/err")"
# Refused before it begins: nothing is lost, and nothing fails but what is new.
! nbdcopy --flush "$dir/noise" "$(uri web)" 2>"$dir/err" || fail "200 MB in a full disk"
grep -qi 'no space' "$dir/err" || fail "$(cat "$dir/err")"
# Requests of the client that left are refused one after another, and each says so.
wait_until metric 'quintet_nbd_connections 0'
wait_until metric 'quintet_export_requests_in_flight{export="web"} 0'
on other -c 'discard 0 4k' -c flush || fail "a trim and a flush: $(cat "$dir/io")"
on other -r -c 'read -P 9 4k 1020k' || fail "reads fail too: $(cat "$dir/io")"
metric 'quintet_failing 0' || fail "failing, and nothing is lost"
exits 0 q volume snapshot other@x
stop_server
mount -o remount,size=600M "$dir/small"
start_server --nbd-socket "$dir/nbd" --journal 32M
exits 0 q status
says 'ONLINE'
on other -r -c 'read -P 9 4k 1020k' || fail "flushed bytes are gone: $(cat "$dir/io")"
nbdcopy --flush "$dir/noise" "$(uri web)"
qemu-img compare -f raw -F raw "$dir/noise" "$(uri web)" >/dev/null || fail "other bytes"
stop_server
sound
