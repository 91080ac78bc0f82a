#!/usr/bin/env bash
# Whoever reads a pool as the replica of another one takes turns at the device of the server that has it, and is counted there;
# what a server copies into a pool on its own device takes turns at its own.
. "$(dirname "$0")/common.sh"
requires curl
other_pool
url_of() { sed -n 's/^metrics at //p' "$1"; }
# metric NAME URL
metric() {
    curl -sf "$2" >"$dir/metrics" || fail "no metrics at $2"
    awk -v name="$1" '$1 == name { printf "%.0f\n", $2 }' "$dir/metrics"
}
noise "$dir/image" 24
new_pool
new_other_pool
exits 0 q import "$dir/image" disk

# The server of the pool copies: what it stores there are its turns.
start_server --metrics 127.0.0.1:0
exits 0 q copy --all
own=$(url_of "$dir/serve")
written=$(metric 'quintet_device_bytes_total{flow="replication",direction="write"}' "$own")
[ "$written" -ge $((24 << 20)) ] || fail "only $written bytes were written in its turns: $(grep replication "$dir/metrics")"
read=$(metric 'quintet_maintenance_bytes_total{task="copy",source="disk"}' "$own")
cached=$(metric 'quintet_maintenance_bytes_total{task="copy",source="cache"}' "$own")
[ "$((read + cached))" -eq $((24 << 20)) ] || fail "$read and $cached bytes"
stop_server

# The replica has a server: repairs read it in turns there.
"$QUINTET" serve -r "$other" --metrics 127.0.0.1:0 >"$dir/replica" 2>&1 &
replica=$!
trap 'kill -9 $replica 2>/dev/null || true; finish' EXIT
replica_serves() { grep -qE '^serving' "$dir/replica" || ! kill -0 $replica; }
wait_until replica_serves
theirs=$(url_of "$dir/replica")
leased() { metric "quintet_device_leased_bytes_total{flow=\"scrub\"}" "$theirs"; }
cp -r "$pool" "$dir/sound-pool"
rot() {
    find "$pool/containers" -type f -size +1M -delete
}
rot
before=$(leased)
exits 20 q scrub --replica "$other"
after=$(leased)
[ "$((after - before))" -ge $((24 << 20)) ] || fail "a command read the replica past its server: $before, then $after"
sound

# The same from a server, which has turns at its own device.
rm -rf "$pool" && cp -r "$dir/sound-pool" "$pool"
rot
start_server --replica "$other" --qos scrub-within=1s
is_repaired() { grep -q 'stored again from' "$dir/serve"; }
wait_until is_repaired
stop_server
again=$(leased)
[ "$((again - after))" -ge $((24 << 20)) ] || fail "a server read the replica past its server: $after, then $again"
kill -TERM $replica
wait $replica || fail "$(cat "$dir/replica")"
sound
