#!/usr/bin/env bash
# The index is a cache: where it cannot be written, backups go on, say so, and deduplicate all the same.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src"
for n in 1 2 3; do noise "$dir/src/noise$n" 2; done
new_pool
exits 0 q backup "$dir/src"
rm -r "$pool/cache" && echo "not a directory" >"$pool/cache"
stored=$(stored_bytes)
exits 0 q backup --force "$dir/src"
says "index could not be written"
grown=$(($(stored_bytes) - stored))
[ $grown -lt 100000 ] || fail "$grown bytes more for the same data"
exits 0 q restore "latest:$dir/src" --target "$dir/back"
same "$dir/src" "$dir/back"
sound
rm "$pool/cache"
exits 0 q backup --force "$dir/src"
! grep -q "index" "$dir/err" || fail "$(cat "$dir/err")"
[ -s "$pool/cache/fpi" ] || fail "the index was not made again"
