#!/bin/sh
# nbdcopy from export to export, over several connections, with holes kept.
. "$(dirname "$0")/common.sh"
requires nbdcopy nbdinfo cmp
serve_controlled --size 67108864
control add second 67108864
head -c 9000001 /dev/urandom >"$dir/in"
truncate -s 67108864 "$dir/in"
first="nbd+unix:///disk?socket=$socket" second="nbd+unix:///second?socket=$socket"
nbdcopy --flush "$dir/in" "$first"
nbdcopy --flush --connections=4 --requests=16 --destination-is-zero "$first" "$second"
nbdcopy "$second" "$dir/out"
cmp "$dir/in" "$dir/out"
nbdinfo --map "$second" | tail -1 | grep -q 'hole,zero' || fail "$(nbdinfo --map "$second")"
