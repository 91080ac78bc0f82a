#!/bin/sh
# nbdinfo --list goes through LIST, INFO and contexts without starting transmission.
. "$(dirname "$0")/common.sh"
requires nbdinfo
serve --size 4096
nbdinfo --list "$uri" >"$dir/list"
grep -q '^export=' "$dir/list" || fail "$(cat "$dir/list")"
grep -q 'export-size: 4096' "$dir/list"
