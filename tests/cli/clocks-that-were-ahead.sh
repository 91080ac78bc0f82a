#!/usr/bin/env bash
# A snapshot of 2035, when a clock was ahead: `latest`, the parent of a backup, the rules of `forget`, and what is overdue
# do not rest on it, and `status` names it.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src"
new_pool
days_ago() { date -u -d "-$1 days" '+%F %TZ'; }
for n in 9 8 7 6 5; do
    echo "$n" >"$dir/src/file"
    exits 0 q backup "$dir/src" --time "$(days_ago $n | tr ' ' T)"
done
exits 3 q status
says "usual interval"
echo future >"$dir/src/file"
exits 0 q backup "$dir/src" --time '2035-01-01T00:00:00Z'
# The newest credible one is still overdue.
exits 3 q status --json
says '"kind":"snapshot_overdue"'
says '"kind":"snapshot_in_future"'
exits 0 q forget --keep-last 1 --dry-run
says "from the future"
[ "$(grep -c keep "$dir/out")" -eq 2 ] || fail "the one of the future has taken a place: $(cat "$dir/out")"
[ "$(q dump latest "$dir/src/file")" = 5 ] || fail "latest is of the future"
echo today >"$dir/src/file"
exits 0 q backup "$dir/src"
exits 3 q status
says "is from the future (2035-01-01T00:00:00Z): a clock was ahead"
! grep -q "usual interval" "$dir/out" || fail "overdue, although there is one of today: $(cat "$dir/out")"
is_today() { [ "$(cat)" = today ] || fail "$1 is not today's"; }
q dump latest "$dir/src/file" | is_today dump
exits 0 q restore "latest:$dir/src" --target "$dir/back"
is_today restore <"$dir/back/file"
exits 0 q snapshots --latest 1 --json
[ "$(grep -c '"message_type":"snapshot"' "$dir/out")" -eq 1 ] || fail "$(cat "$dir/out")"
! grep -q 2035 "$dir/out" || fail "the newest of its source is of the future"
# The parent is today's: nothing is read.
exits 0 q backup "$dir/src" --json
[ "$(number files_unmodified)" -eq 1 ] || fail "it was read again"
exits 0 q forget --keep-within 30d --dry-run
says "0 snapshots would be removed"
# Months are said to be months.
exits 0 q forget --keep-within 30m --dry-run
says "keep-within 30mo: m and mo are months"
says "within 30mo"
if [ -e /dev/fuse ]; then
    show --read-only
    is_today mount <"$mount/snapshots/latest$dir/src/file"
    unshow
fi
# Images: the plain name is the newest state.
noise "$dir/one" 1 && noise "$dir/two" 1
exits 0 q import "$dir/one" disk --time '2035-01-01T00:00:00Z'
exits 0 q import "$dir/two" disk
exits 0 q export disk "$dir/exported"
cmp "$dir/two" "$dir/exported" || fail "the image of the future was exported"
