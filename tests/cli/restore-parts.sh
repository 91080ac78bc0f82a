#!/usr/bin/env bash
# Restore of parts, in place, with and without overwriting and deleting.
. "$(dirname "$0")/common.sh"
mkdir -p "$dir/src/a" "$dir/src/b" && cd "$dir/src"
echo one >a/one && echo two >b/two && noise large 6
new_pool
exits 0 q backup "$dir/src"
exits 0 q restore "latest:$dir/src/a" --target "$dir/only-a"
[ "$(ls "$dir/only-a")" = one ] || fail "$(ls -R "$dir/only-a")"
exits 0 q restore "latest:$dir/src" --target "$dir/included" --include two
[ "$(find "$dir/included" -type f | wc -l)" -eq 1 ] || fail "$(find "$dir/included")"
exits 0 q restore "latest:$dir/src" --target "$dir/excluded" --exclude large
[ ! -e "$dir/excluded/large" ] && [ -e "$dir/excluded/b/two" ] || fail "$(find "$dir/excluded")"
cp -a "$dir/src" "$dir/t" && cd "$dir/t"
printf 'XX' | dd of=large bs=1 seek=3000000 conv=notrunc status=none
echo mine >a/one && echo extra >extra
exits 0 q restore "latest:$dir/src" --target "$dir/t" --overwrite never
[ "$(cat a/one)" = mine ] || fail "never is never"
exits 0 q restore "latest:$dir/src" --target "$dir/t" --dry-run --delete
[ "$(cat a/one)" = mine ] && [ -e extra ] || fail "a dry run wrote"
inode=$(stat -c %i large)
exits 0 q restore "latest:$dir/src" --target "$dir/t" --in-place --delete
[ "$(stat -c %i large)" = "$inode" ] || fail "in place is not in place"
same "$dir/src" "$dir/t"
