#!/bin/sh
# Only named initiators see the target and get in.
. "$(dirname "$0")/common.sh"
requires iscsi-ls iscsi-inq
serve --size 1048576 --initiator iqn.2026-11.org.example:friend
iscsi-inq -i iqn.2026-11.org.example:friend "$uri" >/dev/null
! iscsi-inq -i iqn.2026-11.org.example:stranger "$uri" 2>"$dir/log" || fail "a stranger"
grep -qi 'authori' "$dir/log" || fail "$(cat "$dir/log")"
! iscsi-ls -i iqn.2026-11.org.example:stranger "iscsi://$portal" 2>/dev/null | grep Target || fail "list"
