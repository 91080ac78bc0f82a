#!/usr/bin/env bash
# A real tree comes back identical; unchanged it costs nothing; one changed file costs little.
# Sealed: what costs nothing because it is stored already must be found among sealed chunks.
. "$(dirname "$0")/common.sh"
sealed
requires rsync
real_tree "$dir/src" 150
new_pool
exits 0 q backup "$dir/src"
first=$(stored_bytes)
exits 0 q backup "$dir/src"
[ $(($(stored_bytes) - first)) -lt 65536 ] || fail "an unchanged tree added $(($(stored_bytes) - first)) bytes"
exits 0 q backup --force "$dir/src"
[ $(($(stored_bytes) - first)) -lt 131072 ] || fail "reading again added $(($(stored_bytes) - first)) bytes"
file=$(find "$dir/src" -type f -size +100k | sort | sed -n 1p)
echo "one more line" >>"$file"
exits 0 q backup "$dir/src"
[ $(($(stored_bytes) - first)) -lt 1048576 ] || fail "one line added $(($(stored_bytes) - first)) bytes"
exits 0 q restore "latest:$dir/src" --target "$dir/back"
same "$dir/src" "$dir/back"
exits 0 q diff "$(q snapshots --json | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p' | sed -n 1p)" latest
says "$(basename "$file")"
sound
