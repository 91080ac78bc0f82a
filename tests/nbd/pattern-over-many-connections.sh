#!/bin/sh
# The same bytes through one connection and through many.
. "$(dirname "$0")/common.sh"
requires nbdcopy cmp
serve --read-only --pattern --size 33554433
nbdcopy --connections=1 --requests=1 "$uri" "$dir/one"
nbdcopy --connections=8 --requests=64 "$uri" "$dir/many"
cmp "$dir/one" "$dir/many"
[ "$(stat -c %s "$dir/one")" = 33554433 ]
