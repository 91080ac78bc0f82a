#!/usr/bin/env bash
# The newest commit's catalog is damaged: the commit before is the pool, it is said, what was stored is used again, and after that all is well.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src" && noise "$dir/src/one" 1
new_pool --parity 0
exits 0 q backup "$dir/src"
noise "$dir/src/two" 3
exits 0 q backup "$dir/src"
stored=$(stored_bytes)
newest=$(find "$pool/containers" -type f | sort | tail -n 1)
printf '\377\376' | dd of="$newest" bs=1 seek=620 conv=notrunc status=none

exits 21 q snapshots
says "catalog of commit 3"
says "commit 3 cannot be read: what it added is lost"
[ "$(snapshots)" -eq 1 ] || fail "$(snapshots) snapshots"
exits 21 q status --json
says '"state":"DAMAGED"'
exits 21 q check
exits 21 q restore "latest:$dir/src" --target "$dir/back"
[ ! -e "$dir/back/two" ] && cmp "$dir/src/one" "$dir/back/one"

# The next writer takes over what the lost commit stored: only its catalog and lists are new.
exits 0 q backup "$dir/src"
says "commit 3 cannot be read"
grown=$(($(stored_bytes) - stored))
[ $grown -lt 100000 ] || fail "$grown bytes more: the data were stored again"
exits 0 q snapshots
! grep -qi "lost" "$dir/out" "$dir/err" || fail "still told: $(cat "$dir/err")"
[ "$(snapshots)" -eq 2 ] || fail "$(snapshots) snapshots after a new backup"
exits 0 q restore "latest:$dir/src" --target "$dir/back2"
same "$dir/src" "$dir/back2"
sound
