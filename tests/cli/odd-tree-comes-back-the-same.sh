#!/usr/bin/env bash
# Hard links, ACLs, attributes, holes, devices, pipes, odd names, odd modes and times: all come back.
. "$(dirname "$0")/common.sh"
requires rsync
src=$dir/src
odd_tree "$src"
new_pool
exits 0 q backup "$src"
exits 0 q restore "latest:$src" --target "$dir/out-tree" --verify
same "$src" "$dir/out-tree"
[ "$(stat -c %i "$dir/out-tree/file")" = "$(stat -c %i "$dir/out-tree/sub/deep/hard two")" ] || fail "a hard link was lost"
[ "$(stat -c %b "$dir/out-tree/all-hole")" -lt 64 ] || fail "a hole takes space"
[ "$(stat -c %b "$dir/out-tree/holes")" -lt 1024 ] || fail "holes take space"
[ "$(stat -c %y "$dir/out-tree/large")" = "$(stat -c %y "$src/large")" ] || fail "nanoseconds were lost"
# Into the same place once more: nothing to complain about, nothing different.
exits 0 q restore "latest:$src" --target "$dir/out-tree"
same "$src" "$dir/out-tree"
sound
