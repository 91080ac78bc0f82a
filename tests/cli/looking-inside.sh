#!/usr/bin/env bash
# snapshots, ls, find, diff and dump show what is there, also under odd names.
. "$(dirname "$0")/common.sh"
requires tar
mkdir -p "$dir/src/a/b" && cd "$dir/src"
echo one >a/one
echo two >a/b/two
echo gone >gone
printf odd >"$(printf 'odd\nname\377')"
ln -s one a/link
new_pool
exits 0 q backup "$dir/src"
rm gone && echo changed >a/one && echo new >new && chmod 600 a/b/two
sleep 0.01
exits 0 q backup "$dir/src"
ids=$(q snapshots --json | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p')
first=$(echo "$ids" | sed -n 1p)
exits 0 q snapshots
says "${first:0:8}"
exits 0 q ls "$first" "$dir/src"
says gone
exits 0 q ls -l -R "latest:$dir/src"
says two
exits 0 q find two
says "a/b/two"
exits 0 q find '*o*' --snapshot latest
exits 0 q diff --metadata "$first" latest
grep -q '^- *.*gone' "$dir/out" || fail "no removed file: $(cat "$dir/out")"
grep -q '^+ *.*new' "$dir/out" || fail "no added file: $(cat "$dir/out")"
grep -q '^M *.*one' "$dir/out" || fail "no changed file: $(cat "$dir/out")"
grep -q '^U *.*two' "$dir/out" || fail "no changed mode: $(cat "$dir/out")"
[ "$(q dump latest "$dir/src/a/one")" = changed ] || fail "dump"
[ "$(q dump "$first" "$dir/src/a/one")" = one ] || fail "dump of the first"
mkdir "$dir/untar" && q dump "latest:$dir/src" a | tar -x -C "$dir/untar"
[ "$(find "$dir/untar" -name two -exec cat {} +)" = two ] || fail "tar of a directory"
exits 0 q ls --json "latest:$dir/src"
[ "$(grep -c name_hex "$dir/out")" -ge 1 ] || fail "no exact bytes of an odd name: $(cat "$dir/out")"
exits 1 q ls latest /no/such/path
