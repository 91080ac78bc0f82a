#!/usr/bin/env bash
# Shares of the device: shown, set while a server runs, refused where they make no sense; what each kind of
# request had is counted, and a scrub beside is told with its progress.
. "$(dirname "$0")/common.sh"
requires qemu-io curl
mkdir "$dir/src"
noise "$dir/src/noise" 4
noise "$dir/image" 16
new_pool
exits 0 q import "$dir/image" disk
exits 1 q qos show
says 'this pool has no server'
# Where there is no pool, that is what is said.
for words in 'qos show' 'scrub start' 'defrag start' 'copy --pause'; do
    # shellcheck disable=SC2086
    exits 10 env QUINTET_REPOSITORY="$dir/nothing" "$QUINTET" $words
    says 'no such directory'
done
exits 1 q serve --qos random=0
says 'random=0'
start_server --nbd-socket "$dir/nbd" --metrics 127.0.0.1:0 --qos random=30 floor.scrub=2.5
url=$(sed -n 's/^metrics at //p' "$dir/serve")
metric() {
    curl -sf "$url" >"$dir/metrics" || fail "no metrics at $url"
    awk -v name="$1" '$1 == name { print $2 }' "$dir/metrics"
}
exits 0 q qos show
says '^random=30'
says '^floor.scrub=2.5'
says '^weight.backup=4'
exits 0 q qos set random=45 weight.backup=9 device=disk
says '^random=45'
says '^device=disk'
exits 1 q qos set weight.backup=5 random=100
says 'random=100'
exits 1 q qos set weight.tape=5
exits 0 q qos set copy-within=2d gc-within=12h defrag-within=0
says '^copy-within=2d'
says '^gc-within=43200s'
exits 1 q qos set gc-within=soon
exits 0 q qos show --json
grep -q '"random":"45"' "$dir/out" && grep -q '"weight.backup":"9"' "$dir/out" || fail "$(cat "$dir/out")"

# Who asked for what.
exits 0 q backup "$dir/src"
[ "$(metric 'quintet_device_bytes_total{flow="backup",direction="write"}')" -ge $((4 << 20)) ] || fail "$(grep device "$dir/metrics")"
qemu-io -f raw -r "nbd+unix:///disk?socket=$dir/nbd" -c 'read 5M 4k' -c 'read 12M 4k' -c 'read 1M 4k' -c 'read 9M 4k' >"$dir/io"
[ "$(metric 'quintet_device_turns_total{flow="random"}')" -ge 2 ] || fail "$(grep device "$dir/metrics")"
[ "$(metric 'quintet_device_bytes_total{flow="scrub",direction="read"}')" = 0 ] || fail "$(grep device "$dir/metrics")"
scrubbed() { [ "$(metric quintet_scrub_verified_timestamp_seconds)" != 0 ]; }
exits 0 q scrub start
wait_until scrubbed
read=$(metric 'quintet_maintenance_bytes_total{task="scrub",source="disk"}')
cached=$(metric 'quintet_maintenance_bytes_total{task="scrub",source="cache"}')
[ "$((read + cached))" -ge $((20 << 20)) ] || fail "$(grep maintenance "$dir/metrics")"
[ "$(metric 'quintet_device_bytes_total{flow="scrub",direction="read"}')" -ge "$read" ] || fail "$(grep device "$dir/metrics")"
[ "$(metric 'quintet_device_turns_total{flow="scrub"}')" -ge 1 ] || fail "$(grep device "$dir/metrics")"
[ "$(metric 'quintet_maintenance_under_way{task="scrub"}')" = 0 ] || fail "$(grep maintenance "$dir/metrics")"
exits 0 q status
says 'scrub: device: .* read'
exits 0 q status --json
grep -q '"flow":"scrub"' "$dir/out" || fail "$(cat "$dir/out")"
stop_server
sound
