#!/usr/bin/env bash
# The pool's disk fills up: a clear error, an intact pool, and it goes on when there is room again.
. "$(dirname "$0")/common.sh"
mount_tmpfs "$dir/small-disk" 48m
export QUINTET_REPOSITORY=$dir/small-disk/pool
pool=$QUINTET_REPOSITORY
mkdir "$dir/src" "$dir/first"
noise "$dir/first/noise" 10
noise "$dir/src/noise" 100
new_pool
exits 0 q backup "$dir/first"
exits 1 q backup "$dir/src"
says "space"
exits 0 q snapshots
[ "$(snapshots)" -eq 1 ] || fail "$(snapshots) snapshots"
exits 0 q restore "latest:$dir/first" --target "$dir/back"
same "$dir/first" "$dir/back"
sound
mount -o remount,size=400m "$dir/small-disk"
exits 0 q backup "$dir/src"
exits 0 q restore "latest:$dir/src" --target "$dir/back2"
same "$dir/src" "$dir/back2"
sound

# Full again: what would come back is named, and it does.
first=$(q snapshots --json | grep '"message_type":"snapshot"' | head -n 1 | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p')
exits 0 q forget "$first"
exits 0 q gc --trash-period 0 --dry-run
noise "$dir/src/more" 60
used_mib=$(df --output=used -BM "$dir/small-disk" | tail -n 1 | tr -dc 0-9)
mount -o remount,size=$((used_mib + 24))m "$dir/small-disk"
exits 1 q backup "$dir/src"
says "gc --trash-period 0 frees the data of 1 forgotten snapshot at once"
exits 0 q gc
exits 1 q backup "$dir/src" --json
says "gc --trash-period 0 frees the data of 1 forgotten snapshot at once"
exits 0 q forget latest
exits 0 q gc --trash-period 0
says "deleted from the trash"
exits 0 q backup "$dir/src/more"
sound
