#!/usr/bin/env bash
# latest:PATH is the newest snapshot that has the path, in every command, which says when that is not the newest; latest
# alone is the newest.
. "$(dirname "$0")/common.sh"
new_pool
mkdir -p "$dir/a/etc" "$dir/b"
echo one >"$dir/a/etc/file"
echo other >"$dir/b/file"
id() {
    q snapshots --json "$@" | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p'
}
exits 0 q backup "$dir/a" --host one
first=$(id latest)
exits 0 q ls "latest:$dir/a/etc"
[ ! -s "$dir/err" ] || fail "the newest has it, so there is nothing to say: $(cat "$dir/err")"
exits 0 q backup "$dir/b" --host two

# took COMMAND...: with the older snapshot, and says so.
took() {
    exits 0 q "$@"
    grep -q "latest with $dir/a/etc.*: $first of .*1 newer snapshot without it" "$dir/err" ||
        fail "$*: $(cat "$dir/out" "$dir/err")"
}
took ls "latest:$dir/a/etc"
says "etc/file"
took dump "latest:$dir/a/etc/file"
[ "$(cat "$dir/out")" = one ] || fail "dump"
took restore "latest:$dir/a/etc" --target "$dir/back"
cmp "$dir/a/etc/file" "$dir/back/file" || fail "restore"
took diff "$first:$dir/a/etc" "latest:$dir/a/etc"
took find '*' -s "latest:$dir/a/etc"
says "in snapshot $first"
says "etc/file"
exits 0 q find '/file' -s "latest:$dir/a/etc"
says "etc/file"
exits 1 q find '*' -s "latest:$dir/a/etc/file"
says "not a directory"
exits 0 q -q ls "latest:$dir/a/etc"
[ ! -s "$dir/err" ] || fail "-q: $(cat "$dir/err")"
exits 0 q ls --json "latest:$dir/a/etc"
says "\"short_id\":\"$first\""

# Filters, latest alone, and paths that no snapshot has.
exits 1 q ls "latest:$dir/a/etc" --host two
says "there is no $dir/a"
exits 1 q ls latest "$dir/a/etc"
exits 1 q dump latest "$dir/a/etc/file"
exits 1 q restore "latest:$dir/none" --target "$dir/none"
says "none of 2 snapshots has it"
says "there is no $dir/none"
exits 0 q ls latest:/
says "^/tmp\|^/"

# Beside a server.
start_server
took ls "latest:$dir/a/etc"
stop_server

# Newer snapshots that are lost may have it: the code says so.
before=$(find "$pool/containers" -type f | sort)
exits 0 q backup "$dir/b" --host three
find "$pool/containers" -type f | sort | comm -13 <(echo "$before") - | xargs -r rm
exits 21 q ls "latest:$dir/a/etc"
says "newer snapshots may be lost"
