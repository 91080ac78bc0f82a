#!/usr/bin/env bash
# While a backup runs, a walk ahead finds out how much there is: progress has a percentage and an ETA, and the
# totals are those of the summary.
. "$(dirname "$0")/common.sh"
new_pool
mkdir -p "$dir/source/sub"
for n in 1 2 3 4 5 6 7 8; do
    head -c 24M /dev/urandom >"$dir/source/sub/$n"
    echo small >"$dir/source/small-$n"
done
echo left out >"$dir/source/no.tmp"
QUINTET_PROGRESS_FPS=50 q backup --json --exclude '*.tmp' "$dir/source" >"$dir/lines"
said() { # FIELD of the last status line that has a total
    grep '"message_type":"status"' "$dir/lines" | grep '"total_bytes"' | tail -1 | sed "s/.*\"$1\":\([0-9]*\).*/\1/"
}
grep -q '"seconds_remaining"' "$dir/lines" || fail "no ETA in $(grep -c status "$dir/lines") status lines"
[ "$(said total_files)" = 16 ] || fail "$(said total_files) files, expected 16"
expected=$((8 * 24 * 1048576 + 8 * 6))
[ "$(said total_bytes)" = "$expected" ] || fail "$(said total_bytes) bytes, expected $expected"
