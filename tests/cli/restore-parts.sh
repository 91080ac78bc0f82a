#!/usr/bin/env bash
# Restore of parts, in place, with and without overwriting and deleting.
. "$(dirname "$0")/common.sh"
mkdir -p "$dir/src/a" "$dir/src/b" && cd "$dir/src"
echo one >a/one && echo two >b/two && noise large 6
new_pool
exits 0 q backup "$dir/src"
exits 0 q restore "latest:$dir/src/a" --target "$dir/only-a"
[ "$(ls "$dir/only-a")" = one ] || fail "$(ls -R "$dir/only-a")"
# One file, by any name.
exits 0 q restore "latest:$dir/src/a/one" --target "$dir/one-file" --verify
[ "$(find "$dir/one-file" | wc -l)" -eq 2 ] || fail "$(find "$dir/one-file")"
[ "$(stat -c '%a %s %y' "$dir/one-file/one")" = "$(stat -c '%a %s %y' "$dir/src/a/one")" ] || fail "its metadata"
says "^restored 1 file and 0 directories"
mkdir "$dir/stars" && echo star >"$dir/stars/a*[\\?" && echo other >"$dir/stars/ab" && ln -s ab "$dir/stars/link"
exits 0 q backup "$dir/stars"
exits 0 q restore "latest:$dir/stars/a*[\\?" --target "$dir/star"
[ "$(find "$dir/star" -type f -exec cat {} +)" = star ] || fail "$(find "$dir/star")"
exits 0 q restore "latest:$dir/stars/link" --target "$dir/star"
[ "$(readlink "$dir/star/link")" = ab ] || fail "$(find "$dir/star")"
exits 1 q restore "latest:$dir/stars/ab" --target "$dir/star" --delete
says "is one file; remove --delete"
exits 1 q restore "latest:$dir/stars/ab" --target "$dir/star" --include ab
says "is one file; remove --include"
exits 0 q restore "latest:$dir/stars/ab" --target "$dir/star" --dry-run
[ ! -e "$dir/star/ab" ] || fail "a dry run wrote"
exits 0 q forget latest
# Other kinds name their command.
exits 0 q import "$dir/src/large" image
exits 0 q backup --stdin --stdin-filename stream --allow-empty
exits 0 q volume create volume --size 1M
exits 1 q restore image --target "$dir/none"
says "image is an image and no tree of files; use quintet export image FILE"
exits 1 q restore stream --target "$dir/none"
says "stream is a stream and no tree of files; use quintet dump stream"
exits 1 q restore volume --target "$dir/none"
says "volume is a volume and no tree of files; use quintet export volume FILE"
# shellcheck disable=SC2046
exits 0 q forget $(q snapshots --json | grep -v '"kind":"tree"' | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p')
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
