#!/usr/bin/env bash
# A pool without encryption needs no password and works the same.
. "$(dirname "$0")/common.sh"
real_tree "$dir/src" 20
new_pool
exits 0 q backup "$dir/src"
exits 0 q restore "latest:$dir/src" --target "$dir/back"
same "$dir/src" "$dir/back"
exits 1 q key list
sound
