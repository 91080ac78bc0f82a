#!/usr/bin/env bash
# Part of the catalog is damaged: the other snapshots are listed and restored, and it is said; nothing is removed blindly.
. "$(dirname "$0")/common.sh"
new_pool --parity 0
# Long tags: a few snapshots fill a leaf of the catalog.
tag=$(head -c 3000 /dev/zero | tr '\0' t)
count=24
for n in $(seq $count); do
    echo "stream $n" | q backup -q --stdin --stdin-filename "s$n" --tag "$tag$n" >/dev/null
done
cp -r "$pool" "$dir/good"

# The container whose damage hides some snapshots and no commit.
found=
for container in $(cd "$dir/good" && find containers -type f | sort); do
    cp "$dir/good/$container" "$pool/$container"
    printf '\377\376' | dd of="$pool/$container" bs=1 seek=620 conv=notrunc status=none
    code=0
    q snapshots >"$dir/out" 2>"$dir/err" || code=$?
    if [ $code -eq 21 ] && grep -q "cannot be listed" "$dir/err"; then
        found=$container
        break
    fi
    cp "$dir/good/$container" "$pool/$container"
done
[ -n "$found" ] || fail "no leaf of the catalog was hit"
listed=$(q snapshots --json 2>/dev/null | grep -c '"message_type":"snapshot"') || true
[ "$listed" -gt 0 ] && [ "$listed" -lt $count ] || fail "$listed of $count are listed"

newest=$(q snapshots --json 2>/dev/null | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p' | tail -n 1) || true
exits 0 q dump "$newest"
says "cannot be listed"
[ "$(cat "$dir/out")" = "stream $count" ] || fail "$(cat "$dir/out")"
# The latest one might be among those that cannot be read.
exits 21 q dump latest
[ "$(cat "$dir/out")" = "stream $count" ] || fail "$(cat "$dir/out")"
exits 21 q stats --by snapshot
exits 21 q find nothing
exits 21 q dump 00000000
exits 21 q status
says "DAMAGED"
exits 21 q check
exits 21 q scrub
# Removing and changing need to see everything.
exits 21 q forget --keep-last 1
exits 21 q tag --add t "$newest"

# Backups go on.
mkdir "$dir/src" && echo one >"$dir/src/file"
exits 0 q backup "$dir/src"
says "cannot be listed"
new=$(q snapshots --json 2>/dev/null | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p' | tail -n 1) || true
exits 0 q ls "$new" "$dir/src"
exits 0 q restore "$new:$dir/src" --target "$dir/back"
same "$dir/src" "$dir/back"
exits 21 q restore "latest:$dir/src" --target "$dir/back2"
same "$dir/src" "$dir/back2"
exits 0 q diff "$new" "$new"
