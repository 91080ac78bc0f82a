#!/usr/bin/env bash
# Processes that read the pool beside its server take turns at the device there, and are counted; neither a killed
# process nor a killed server keeps anybody waiting.
. "$(dirname "$0")/common.sh"
requires qemu-io curl
mkdir "$dir/src"
noise "$dir/src/a" 24
noise "$dir/src/b" 8
noise "$dir/image" 24
new_pool
exits 0 q backup "$dir/src"
exits 0 q import "$dir/image" disk
exits 0 q volume clone disk work
start_server --memory 32M --nbd-socket "$dir/nbd" --metrics 127.0.0.1:0 --qos gc=off scrub=off
url=$(sed -n 's/^metrics at //p' "$dir/serve")
metric() {
    curl -sf "$url" >"$dir/metrics" || fail "no metrics at $url"
    awk -v name="$1" '$1 == name { print $2 }' "$dir/metrics"
}
leased() { metric "quintet_device_leased_bytes_total{flow=\"$1\"}"; }
nobody_waits() {
    curl -sf "$url" | awk '/^quintet_device_waiting/ { waiting += $2 } END { exit waiting > 0 }'
}

# Clients read all the while.
clients() {
    local round
    for round in $(seq 1000); do
        qemu-io -f raw "nbd+unix:///work?socket=$dir/nbd" -c "read $((round * 7 % 23))M 64k" -c "read $((round * 11 % 23))M 64k" -c "write 1M 64k" || return 0
    done
}
background clients clients
clients=$!

# What a restore reads is counted as such, in turns; what check reads, as verification.
exits 0 q restore latest -t "$dir/back"
same "$dir/src" "$dir/back$dir/src"
# The last of them is counted when the connection has ended.
has_read() { [ "$(leased "$1")" -ge "$2" ]; }
wait_until has_read restore $((32 << 20))
[ "$(metric 'quintet_device_bytes_total{flow="restore",direction="read"}')" -ge $((32 << 20)) ] || fail "$(grep device "$dir/metrics")"
[ "$(metric 'quintet_device_turns_total{flow="restore"}')" -ge 8 ] || fail "$(grep device "$dir/metrics")"
[ "$(leased scrub)" = 0 ] || fail "$(grep device "$dir/metrics")"
exits 0 q check --read-data
wait_until has_read scrub $((56 << 20))
exits 0 q qos show
says 'restore: .* by other processes'
exits 0 q status
says 'scrub: device: .* by other processes'
exits 0 q qos show --json
grep -q '"leased_bytes":[1-9]' "$dir/out" || fail "$(cat "$dir/out")"

# Several that stop in the middle, and are killed there: who comes then is served.
mkfifo "$dir/slow"
before=$(leased restore)
stuck=()
for number in 1 2 3 4; do
    "$QUINTET" dump latest "$dir/src/a" >"$dir/slow" 2>/dev/null &
    stuck+=($!)
done
exec 7<"$dir/slow"
head -c 1000 <&7 >/dev/null
"$QUINTET" check --read-data >/dev/null 2>&1 &
stuck+=($!)
for process in "${stuck[@]}"; do wait_until has_moved read "$process" $((1 << 20)); done
kill -9 "${stuck[@]}" 2>/dev/null || true
exec 7<&-
wait "${stuck[@]}" 2>/dev/null || true
wait_until nobody_waits
rm -rf "$dir/back"
exits 0 q restore latest -t "$dir/back"
same "$dir/src" "$dir/back$dir/src"
wait_until has_read restore $((before + (32 << 20)))
exits 0 q scrub start
scrubbed() { [ "$(metric quintet_scrub_verified_timestamp_seconds)" != 0 ]; }
wait_until scrubbed

# A server that is killed: its restores go on without it.
mkfifo "$dir/pipe"
"$QUINTET" dump latest "$dir/src/a" >"$dir/pipe" &
reader=$!
exec 8<"$dir/pipe"
head -c 65536 <&8 >"$dir/copy"
kill_server
cat <&8 >>"$dir/copy"
exec 8<&-
wait "$reader" || fail "the dump failed when the server was killed"
cmp "$dir/copy" "$dir/src/a"
wait "$clients" || true
sound
