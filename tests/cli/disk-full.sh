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
