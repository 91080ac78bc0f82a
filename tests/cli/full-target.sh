#!/usr/bin/env bash
# The disk that a restore or export writes to fills up: exit 1 or 3 and a clear error.
. "$(dirname "$0")/common.sh"
mount_tmpfs "$dir/small-disk" 4m
mkdir "$dir/src"
noise "$dir/src/noise" 12
new_pool
exits 0 q backup "$dir/src"
exits 0 q import "$dir/src/noise" disk
code=0
q restore latest --target "$dir/small-disk/t" >"$dir/out" 2>"$dir/err" || code=$?
[ $code -eq 1 ] || [ $code -eq 3 ] || fail "restore exited with $code"
says "space"
rm -rf "$dir/small-disk/t"
exits 1 q export disk "$dir/small-disk/image"
says "space"
