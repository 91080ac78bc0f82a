#!/bin/sh
# qemu-img opens the export and knows its size.
. "$(dirname "$0")/common.sh"
requires qemu-img
serve --size 10485760
qemu-img info --output=json "nbd+unix:///?socket=$socket" >"$dir/info"
grep -q '"virtual-size": 10485760' "$dir/info" || fail "$(cat "$dir/info")"
