#!/usr/bin/env bash
# What a server does can be seen: by `top`, `status`, `volume list`, and whoever asks for its metrics.
. "$(dirname "$0")/common.sh"
requires python3 qemu-io curl
new_pool
noise "$dir/image" 4
exits 0 q import "$dir/image" disk
exits 0 q volume clone disk one
exits 0 q volume clone disk two
exits 1 q top --count 1
says 'this pool has no server'
exits 10 env QUINTET_REPOSITORY="$dir/nothing" "$QUINTET" top --count 1
start_server --nbd-socket "$dir/nbd" --metrics 127.0.0.1:0
url=$(sed -n 's/^metrics at //p' "$dir/serve")
metric() {
    curl -sf "$url" >"$dir/metrics" || fail "no metrics at $url"
    awk -v name="$1" '$1 == name { print $2 }' "$dir/metrics"
}
io() {
    local name=$1
    shift
    qemu-io -f raw "nbd+unix:///$name?socket=$dir/nbd" "$@" >"$dir/io" || fail "$(cat "$dir/io")"
}
# The same chunks by another place: hits by content.
io one -c 'read 0 4M'
io two -c 'read 0 4M'
io one -c 'read 0 4M' -c 'write -P 7 0 64k' -c flush -c 'read -P 7 0 64k'
[ "$(metric 'quintet_export_bytes_total{export="one",operation="write"}')" = 65536 ] || fail "$(cat "$dir/metrics")"
[ "$(metric 'quintet_export_bytes_total{export="two",operation="read"}')" -ge 4194304 ] || fail "$(cat "$dir/metrics")"
[ "$(metric 'quintet_volume_size_bytes{volume="two"}')" = 4194304 ] || fail "$(cat "$dir/metrics")"
for class in place content unwritten; do
    [ "$(metric "quintet_cache_hits_total{tier=\"memory\",class=\"$class\"}")" -gt 0 ] || fail "no hits by $class: $(cat "$dir/metrics")"
done
# ... and each in its own place.
[ "$(metric 'quintet_export_cache_hits_total{export="two",class="content"}')" -ge 256 ] || fail "$(grep export_cache "$dir/metrics")"
[ "$(metric 'quintet_export_cache_hits_total{export="one",class="place"}')" -ge 256 ] || fail "$(grep export_cache "$dir/metrics")"
[ "$(metric 'quintet_export_cache_misses_total{export="two"}')" = 0 ] || fail "$(grep export_cache "$dir/metrics")"
# Each owner says what it has of the budget, and together they keep to it (256 MiB unless somebody says otherwise).
for owner in pages pieces journal index directories regions; do
    [ -n "$(metric "quintet_memory_bytes{owner=\"$owner\"}")" ] || fail "nothing of $owner: $(grep memory "$dir/metrics")"
done
owned=$(awk '/^quintet_memory_bytes/ { sum += $2 } END { printf "%d", sum }' "$dir/metrics")
{ [ "$owned" -gt 4194304 ] && [ "$owned" -le $((256 << 20)) ]; } || fail "$owned bytes of memory: $(grep memory "$dir/metrics")"
io disk -r -c 'read 0 4M'
[ "$(metric 'quintet_export_cache_hits_total{export="disk",class="content"}')" -ge 256 ] || fail "$(grep export_cache "$dir/metrics")"
[ "$(metric quintet_cache_shared_bytes)" -ge 4000000 ] || fail "sharing saves $(metric quintet_cache_shared_bytes)"
[ "$(metric quintet_journal_syncs_total)" -ge 1 ] || fail "no sync: $(cat "$dir/metrics")"
# Somebody writes all the time.
background load bash -c "while qemu-io -f raw 'nbd+unix:///one?socket=$dir/nbd' -c 'write -P 5 0 1M' -c flush; do :; done"
load=$!
exits 0 q top --json --count 3 --interval 0.5
kill $load
python3 - "$dir/out" <<'P' || fail "$(cat "$dir/out")"
import json, sys
frames = [json.loads(line) for line in open(sys.argv[1])]
frames = [frame for frame in frames if frame["message_type"] == "top"]
assert len(frames) == 3, len(frames)
exports = {export["name"]: export for export in frames[-1]["exports"]}
assert {"one", "two"} <= set(exports) <= {"one", "two", "disk"}, exports
one, two = exports["one"], exports["two"]
assert one["written_bytes_per_second"] > 1e6 and one["writes_per_second"] > 0, one
assert one["latency_mean_us"] > 0 and one["latency_p99_us"] > 0 and one["queue_depth"] > 0, one
assert two["writes_per_second"] == 0, two
assert frames[-1]["cache"]["hits_by_content"] > 0, frames[-1]
P
exits 0 q top --count 1 --interval 0.1
says '^one  '
says 'by content'
says ' Hits'
exits 0 q status
says 'journal: .* in use'
says 'by content'
exits 0 q status --json
grep -q '"server":{"pid":'"$server"',' "$dir/out" || fail "$(cat "$dir/out")"
# Ctrl-C ends it, and only it.
background top "$QUINTET" top --interval 30
top=$!
wait_until catches_interrupts $top
kill -INT $top
code=0
wait $top || code=$?
[ $code -eq 0 ] || fail "top exited with $code: $(cat "$dir/top")"
[ "$(curl -s -o /dev/null -w '%{http_code}' "${url%metrics}")" = 404 ] || fail "something else is served"
stop_server
exits 1 timeout --foreground 60 "$QUINTET" serve --metrics 0.0.0.0:9100
says 'not a loopback address'
sound
