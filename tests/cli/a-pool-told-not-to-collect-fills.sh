#!/usr/bin/env bash
# With `gc=off` a server leaves the pool alone: overwriting a volume fills the disk, and clients hear of it.
. "$(dirname "$0")/common.sh"
requires nbdcopy curl
mount_tmpfs "$dir/small" 400M
pool=$dir/small/pool
export QUINTET_REPOSITORY=$pool
new_pool
exits 0 q volume create web --size 100M
start_server --nbd-socket "$dir/nbd" --journal 32M --metrics 127.0.0.1:0 --qos gc=off scrub=off
url=$(sed -n 's/^metrics at //p' "$dir/serve")
exits 0 q status
says 'gc: .*only by command'
says 'scrubs: only by command'
failed=
for round in 1 2 3 4 5 6; do
    noise "$dir/noise" 100
    nbdcopy --flush "$dir/noise" "nbd+unix:///web?socket=$dir/nbd" 2>"$dir/err" || { failed=yes && break; }
done
[ -n "$failed" ] || fail "600 MB of noise on a disk of 400, and nobody collected"
grep -qi 'no space' "$dir/err" || fail "$(cat "$dir/err")"
curl -sf "$url" | matches -x 'quintet_collect_runs_total{by="server"} 0' || fail "$(curl -sf "$url" | grep collect)"
exits 0 q qos show
says '^gc=off'
kill_server

# With room again, told to while it runs, the next one does: the same goes on, and there is an end of it.
mount -o remount,size=650M "$dir/small"
start_server --nbd-socket "$dir/nbd" --journal 32M --metrics 127.0.0.1:0 --qos gc=off
url=$(sed -n 's/^metrics at //p' "$dir/serve")
exits 0 q qos set gc=auto
for round in 1 2 3 4 5 6 7 8; do
    noise "$dir/noise" 100
    nbdcopy --flush "$dir/noise" "nbd+unix:///web?socket=$dir/nbd" 2>"$dir/err" || fail "round $round: $(cat "$dir/err"; q status)"
done
curl -sf "$url" | matches 'quintet_collect_runs_total{by="server"} [1-9]' || fail "$(curl -sf "$url" | grep collect)"
stop_server
sound
