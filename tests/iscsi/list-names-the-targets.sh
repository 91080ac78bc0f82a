#!/bin/sh
# Discovery lists the targets and their portal, and its session ends properly.
. "$(dirname "$0")/common.sh"
requires iscsi-ls
serve_controlled --size 1048576
control add iqn.2026-11.org.quintet:second 2097152
iscsi-ls -s "iscsi://$portal" >"$dir/list"
grep -q "Target:$target Portal:$portal,1" "$dir/list" || fail "$(cat "$dir/list")"
[ "$(grep -c '^Target:' "$dir/list")" = 2 ] || fail "$(cat "$dir/list")"
[ "$(grep -c 'Lun:0 .*DIRECT_ACCESS' "$dir/list")" = 2 ] || fail "$(cat "$dir/list")"
