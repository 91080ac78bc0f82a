#!/usr/bin/env bash
# A volume is overwritten again and again, with several times what the disk holds: no client hears of a full disk,
# as the server gives back by itself what was overwritten. What snapshots need stays, forgotten ones too.
. "$(dirname "$0")/common.sh"
requires nbdcopy qemu-img qemu-io curl
mount_tmpfs "$dir/small" 600M
pool=$dir/small/pool
export QUINTET_REPOSITORY=$pool
new_pool
exits 0 q volume create web --size 120M
exits 0 q volume create other --size 16M
uri() { echo "nbd+unix:///$1?socket=$dir/nbd"; }
metric() {
    curl -sf "$url" >"$dir/metrics" || fail "no metrics at $url"
    awk -v name="$1" '$1 == name { printf "%.0f\n", $2 }' "$dir/metrics"
}
start_server --nbd-socket "$dir/nbd" --journal 32M --metrics 127.0.0.1:0
url=$(sed -n 's/^metrics at //p' "$dir/serve")
mkdir "$dir/src"
noise "$dir/src/kept" 8
noise "$dir/src/forgotten" 8
exits 0 q backup "$dir/src/forgotten"
exits 0 q forget latest
exits 0 q backup "$dir/src/kept"
for round in $(seq 12); do
    noise "$dir/noise" 120
    nbdcopy --flush "$dir/noise" "$(uri web)" 2>"$dir/err" || fail "round $round: $(cat "$dir/err" "$dir/serve"; df -m "$dir/small"; q status)"
    qemu-io -f raw "$(uri other)" -c "write -P $round 0 16M" -c flush >"$dir/io" 2>&1 || fail "$(cat "$dir/io")"
done
qemu-img compare -f raw -F raw "$dir/noise" "$(uri web)" >/dev/null || fail "other bytes"
[ "$(metric 'quintet_collect_runs_total{by="server"}')" -ge 2 ] || fail "$(grep collect "$dir/metrics")"
[ "$(metric 'quintet_collect_runs_total{by="command"}')" = 0 ] || fail "$(grep collect "$dir/metrics")"
[ "$(metric quintet_collect_deleted_bytes_total)" -ge $((700 << 20)) ] || fail "$(grep collect "$dir/metrics")"
[ "$(metric quintet_failing)" = 0 ] || fail "$(cat "$dir/serve")"
exits 0 q status
says 'gc: .*by the server itself'
exits 0 q undelete
id=$(sed -n 's/^\([0-9a-f]\{8\}\).*/\1/p' "$dir/out" | head -n 1)
exits 0 q undelete "$id"
kill_server
start_server --nbd-socket "$dir/nbd" --journal 32M
exits 0 q status
says 'gc: .*last run .* by the server itself'
qemu-img compare -f raw -F raw "$dir/noise" "$(uri web)" >/dev/null || fail "other bytes after a kill"
stop_server
sound
exits 0 q restore "$id" --target "$dir/back"
cmp "$dir/src/forgotten" "$dir/back$dir/src/forgotten"
