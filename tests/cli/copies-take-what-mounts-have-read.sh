#!/usr/bin/env bash
# What programs have read of a stream and of a tree in a server's mount is copied from memory; the rest is read. Both
# arrive whole. The metrics of the server tell the two apart.
. "$(dirname "$0")/common.sh"
requires curl
other_pool
noise "$dir/stream" 32
mkdir -p "$dir/src/a" "$dir/src/b"
for n in 1 2 3 4; do
    noise "$dir/src/a/$n" 4
    noise "$dir/src/b/$n" 4
done
new_pool --parity 0
new_other_pool
q backup --stdin --stdin-filename db.sql <"$dir/stream" >/dev/null
exits 0 q backup "$dir/src"
start_server --metrics 127.0.0.1:0 --memory 512M
holder=$server
url=$(sed -n 's/^metrics at //p' "$dir/serve")
# bytes SOURCE: that copies are through with.
bytes() {
    curl -sf "$url" >"$dir/metrics" || fail "no metrics at $url"
    awk -v name="quintet_maintenance_bytes_total{task=\"copy\",source=\"$1\"}" '$1 == name { printf "%.0f\n", $2 }' "$dir/metrics"
}
show
[ "$(bytes cache) $(bytes disk)" = "0 0" ] || fail "nothing was copied yet: $(grep copy "$dir/metrics")"

# The second half of the stream, and the second directory.
stream=$(find "$mount" -name 'db.sql*' | head -n 1)
tail -c $((16 << 20)) "$stream" | cmp - <(tail -c $((16 << 20)) "$dir/stream")
second=$(find "$mount/snapshots" -type d -name b | head -n 1)
same_bytes() { cat "$1"/*; }
same_bytes "$second" | cmp - <(same_bytes "$dir/src/b")

exits 0 q copy --all --json
[ "$(number snapshots_copied)" = 2 ] || fail "$(cat "$dir/out")"
cached=$(bytes cache) read=$(bytes disk)
[ "$cached $read" = "$(number cached_bytes) $(number read_bytes)" ] || fail "$cached and $read in the metrics: $(cat "$dir/out")"
[ "$((cached + read))" -eq $((64 << 20)) ] || fail "$cached and $read bytes"
[ "$cached" -ge $((28 << 20)) ] || fail "only $cached bytes came from memory, $read were read"
[ "$cached" -le $((40 << 20)) ] || fail "$cached bytes came from memory, only half was read before"

unshow
server=$holder
stop_server
exits 0 o dump db.sql@latest
cmp "$dir/stream" "$dir/out"
exits 0 o check --read-data
sound
