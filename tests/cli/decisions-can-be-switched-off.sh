#!/usr/bin/env bash
# `serve --without` switches one decision off, and only that; the server says so, and its metrics count each decision.
. "$(dirname "$0")/common.sh"
requires nbdcopy curl
new_pool
exits 1 q serve --nbd-socket "$dir/nbd" --without prefetch,sleep
says "invalid --without sleep: it is one of prefetch, "
exits 0 q volume create disk --size 24M
noise "$dir/disk" 24
metric() {
    curl -sf "$url" >"$dir/metrics" || fail "no metrics at $url"
    awk -v name="$1" '$1 == name { printf "%.0f\n", $2 }' "$dir/metrics"
}
# reads_all WITHOUT...: reads the volume in order, in a server of its own.
reads_all() {
    start_server --nbd-socket "$dir/nbd" --metrics 127.0.0.1:0 "$@"
    url=$(sed -n 's/^metrics at //p' "$dir/serve")
    nbdcopy "nbd+unix:///disk?socket=$dir/nbd" "$dir/back"
    cmp "$dir/disk" "$dir/back" || fail "other bytes"
    ahead=$(metric 'quintet_read_ahead_regions_total{into="memory"}')
    off=$(grep '^quintet_decision_switched_off' "$dir/metrics" || true)
    stop_server
}
start_server --nbd-socket "$dir/nbd"
nbdcopy "$dir/disk" "nbd+unix:///disk?socket=$dir/nbd"
stop_server
reads_all
[ "$ahead" -gt 20 ] || fail "$ahead regions were fetched ahead"
[ -z "$off" ] || fail "off: $off"
reads_all --without prefetch --without shared-reads,fast-modified
matches '^switched off: prefetch, shared-reads, fast-modified$' <"$dir/serve" || fail "$(cat "$dir/serve")"
[ "$ahead" = 0 ] || fail "$ahead regions were fetched ahead"
[ "$(grep -c ' 1$' <<<"$off")" = 3 ] || fail "off: $off"
sound
