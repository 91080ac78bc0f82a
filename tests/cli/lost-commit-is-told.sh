#!/usr/bin/env bash
# All copies of the newest root are damaged: the commit before is the pool, it is said, and work goes on.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src" && echo one >"$dir/src/file"
new_pool
exits 0 q backup "$dir/src"
echo two >"$dir/src/file"
exits 0 q backup "$dir/src"
root=$(basename "$(find "$pool/roots" -type f | sort | tail -n 1)")
for copy in "$pool/roots/$root" "$pool/mirror/roots/$root"; do
    head -c 1024 /dev/zero >"$copy"
done
exits 0 q snapshots
says "root"
[ "$(snapshots)" -eq 1 ] || fail "$(snapshots) snapshots"
exits 21 q check
exits 0 q restore "latest:$dir/src" --target "$dir/back"
[ "$(cat "$dir/back/file")" = one ] || fail "the older snapshot is not what it was"
exits 0 q backup "$dir/src"
[ "$(snapshots)" -eq 2 ] || fail "$(snapshots) snapshots after a new backup"
exits 0 q restore "latest:$dir/src" --target "$dir/back2"
[ "$(cat "$dir/back2/file")" = two ] || fail "the new snapshot is not what was stored"
