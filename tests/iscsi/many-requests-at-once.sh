#!/bin/sh
# Thousands of requests, 32 at a time, without an error.
. "$(dirname "$0")/common.sh"
requires iscsi-perf
serve --size 67108864 --pattern
iscsi-perf -m 32 -b 8 -t 2 -r "$uri" >"$dir/log" 2>&1 || fail "$(tr '\r' '\n' <"$dir/log" | tail -5)"
tr '\r' '\n' <"$dir/log" | grep -q 'iops average [1-9][0-9][0-9]' || fail "$(cat "$dir/log")"
