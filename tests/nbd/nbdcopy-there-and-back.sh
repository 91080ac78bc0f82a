#!/bin/sh
# nbdcopy over several connections stores a sparse file and gives the same bytes back.
. "$(dirname "$0")/common.sh"
requires nbdcopy cmp
serve --size 67108864
head -c 9000001 /dev/urandom >"$dir/in"
truncate -s 33554432 "$dir/in"
head -c 1000000 /dev/urandom >>"$dir/in"
truncate -s 67108864 "$dir/in"
nbdcopy --flush "$dir/in" "$uri"
nbdcopy "$uri" "$dir/out"
cmp "$dir/in" "$dir/out"
