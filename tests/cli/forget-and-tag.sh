#!/usr/bin/env bash
# Tags select; policies keep, say why, refuse to keep nothing; a dry run removes nothing.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src"
new_pool
for day in 01 02 03 04 05 06; do
    echo "$day" >"$dir/src/file"
    exits 0 q backup --time "2026-01-$day 12:00:00" --tag nightly "$dir/src"
done
[ "$(snapshots)" -eq 6 ] || fail "$(snapshots) snapshots"
exits 0 q tag --add release latest
exits 0 q snapshots --tag release --json
[ "$(grep -c '"message_type":"snapshot"' "$dir/out")" -eq 1 ] || fail "$(cat "$dir/out")"
exits 0 q forget --keep-last 2 --dry-run
[ "$(snapshots)" -eq 6 ] || fail "a dry run removed something"
exits 0 q forget --keep-last 2
[ "$(snapshots)" -eq 2 ] || fail "$(snapshots) snapshots, expected 2"
exits 0 q tag --remove nightly latest
exits 0 q snapshots --tag nightly --json
[ "$(grep -c '"message_type":"snapshot"' "$dir/out")" -eq 1 ] || fail "$(cat "$dir/out")"
exits 1 q forget --keep-tag no-such-tag
[ "$(snapshots)" -eq 2 ] || fail "a policy that keeps nothing was obeyed"
exits 0 q forget latest
[ "$(snapshots)" -eq 1 ] || fail "forget by name"
exits 0 q stats
sound
