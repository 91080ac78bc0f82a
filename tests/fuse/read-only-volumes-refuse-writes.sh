#!/usr/bin/env bash
# A read-only volume is read and mapped, and not written.
. "$(dirname "$0")/common.sh"
show $odd_size --read-only
cmp -n $odd_size "$disk" /dev/zero || fail "cannot be read"
! printf x 2>/dev/null 1<>"$disk" || fail "written"
! rm -f "$disk" 2>/dev/null || fail "removed"
grep "$mount" /proc/mounts | grep -q ' ro,' || fail "$(grep "$mount" /proc/mounts)"
unshow
