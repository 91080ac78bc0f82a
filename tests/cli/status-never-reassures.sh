#!/usr/bin/env bash
# What is wrong with a pool is its state, its exit code and its metrics, with a server and without one: files that
# are lost, a verification that is overdue, a source whose backup does not come any more.
. "$(dirname "$0")/common.sh"
requires curl
mkdir "$dir/src" && noise "$dir/src/file" 2
new_pool
exits 0 q status
says 'ONLINE'
says 'store something'
exits 0 q backup "$dir/src"
exits 0 q status
says 'state: ONLINE'
! grep -q 'action:' "$dir/out" || fail "$(cat "$dir/out")"
exits 0 q status --json
grep -q '"findings":\[\]' "$dir/out" || fail "$(cat "$dir/out")"

# Nothing was ever verified.
sleep 2.1
exits 3 q status --verify-within 1s
says 'state: DEGRADED'
says 'never verified in full'
says 'action: run quintet scrub'
exits 0 q status --verify-within 0
exits 0 q scrub

# A source that came every day, and then no more; another one came only twice, a third is done.
hours_ago() { date -d "$1 hours ago" '+%Y-%m-%d %H:%M:%S'; }
for n in 200 176 152 128; do echo $n | q backup --stdin --stdin-filename daily --time "$(hours_ago $n)" >/dev/null; done
for n in 800 799; do echo $n | q backup --stdin --stdin-filename twice --time "$(hours_ago $n)" >/dev/null; done
exits 3 q status
says 'stream daily: the newest snapshot is 5 days old; the usual interval is 24 hours'
! grep -q twice "$dir/out" || fail "$(cat "$dir/out")"
exits 3 q status --json
says '"kind":"snapshot_overdue","severity":"attention","object":"[^"]*stream daily"'
newest=$(q snapshots --json | grep '"name":"daily"' | tail -n 1 | sed 's/.*"short_id":"\([0-9a-f]*\)".*/\1/')
exits 0 q tag --add final "$newest"
exits 0 q status
exits 0 q forget "$newest"
exits 3 q status
says 'stream daily'
echo 1 | q backup --stdin --stdin-filename daily >/dev/null
exits 0 q status
# Some backups within an hour are no schedule; a tag is one.
for n in 6 5 4; do echo $n | q backup --stdin --stdin-filename thrice --time "$(hours_ago $n)" >/dev/null; done
exits 0 q status
thrice=$(q snapshots --json | grep '"name":"thrice"' | tail -n 1 | sed 's/.*"short_id":"\([0-9a-f]*\)".*/\1/')
exits 0 q tag --add every=1h "$thrice"
exits 3 q status
says 'stream thrice'
exits 0 q tag --set final "$thrice"
exits 0 q status

# All files of a snapshot are lost: every region of the first backup.
find "$pool/containers" -type f -size +1M | sort | head -n 1 >"$dir/container"
container=$(cat "$dir/container")
for at in $(seq 3000 20000 2000000); do
    printf '\377\376\375' | dd of="$container" bs=1 seek="$at" conv=notrunc status=none
done
exits 21 q scrub
exits 21 q status
says 'state: DAMAGED'
says 'action: run quintet check'
exits 21 q status --json
says '"kind":"data_damaged","severity":"damage"'
start_server --metrics 127.0.0.1:0
url=$(sed -n 's/^metrics at //p' "$dir/serve")
exits 21 q status
says 'state: DAMAGED'
curl -sf "$url" >"$dir/metrics"
grep -qx 'quintet_finding{kind="data_damaged"} 1' "$dir/metrics" || fail "$(grep finding "$dir/metrics")"
grep -qx 'quintet_state 2' "$dir/metrics" || fail "$(grep state "$dir/metrics")"
# What was stored again is not lost any more.
exits 0 q backup --force "$dir/src"
exits 0 q status
curl -sf "$url" >"$dir/metrics"
grep -qx 'quintet_state 0' "$dir/metrics" || fail "$(grep 'state\|finding' "$dir/metrics")"
stop_server
sound

# A container that is gone: what it held is known when it was looked for.
find "$pool/containers" -type f -size +1M | sort | head -n 1 | xargs rm
exits 21 q check
exits 21 q status
exits 0 q backup --force "$dir/src"
exits 0 q repair
exits 0 q status
