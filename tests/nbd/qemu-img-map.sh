#!/bin/sh
# qemu-img sees the holes of the export.
. "$(dirname "$0")/common.sh"
requires qemu-img
serve --size 33554432
qemu-img map --output=json -f raw "$uri" >"$dir/map"
grep -q '"length": 33554432.*"zero": true, "data": false' "$dir/map" || fail "$(cat "$dir/map")"
