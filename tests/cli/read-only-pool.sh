#!/usr/bin/env bash
# A pool on a read-only file system: reading works, writing is a clear error.
. "$(dirname "$0")/common.sh"
mount_tmpfs "$dir/disk" 64m
export QUINTET_REPOSITORY=$dir/disk/pool
pool=$QUINTET_REPOSITORY
mkdir "$dir/src" && echo x >"$dir/src/x"
new_pool
exits 0 q backup "$dir/src"
mount -o remount,ro "$dir/disk"
exits 0 q snapshots
exits 0 q restore "latest:$dir/src" --target "$dir/back"
same "$dir/src" "$dir/back"
exits 0 q check --read-data
exits 1 q backup "$dir/src"
says "read-only"
exits 1 q -r "$dir/disk/other" init
mount -o remount,rw "$dir/disk"
exits 0 q backup "$dir/src"
