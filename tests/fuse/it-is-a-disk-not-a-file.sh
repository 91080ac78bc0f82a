#!/usr/bin/env bash
# The length stays, names stay, and what lies past the end is refused.
. "$(dirname "$0")/common.sh"
show $odd_size
[ "$(stat -c '%s %a %F' "$disk")" = "$odd_size 600 regular file" ] || fail "$(stat "$disk")"
head -c $odd_size /dev/urandom >"$dir/noise"
cat "$dir/noise" 1<>"$disk" >&1 || fail "writing it whole"
cmp "$dir/noise" "$disk" || fail "differs"
refused() { ! "$@" >"$dir/said" 2>&1 || fail "$* was not refused"; }
refused truncate -s 5 "$disk"
refused dd if=/dev/zero of="$disk" bs=1 count=2 seek=$odd_size conv=notrunc
grep -q 'No space left' "$dir/said" || fail "$(cat "$dir/said")"
refused sh -c ": >$disk"
refused touch "$mount/new"
refused rm -f "$disk"
refused mv "$disk" "$mount/other"
refused mkdir "$mount/directory"
refused ln "$disk" "$mount/link"
refused chmod 644 "$disk"
cmp "$dir/noise" "$disk" || fail "something of that changed it"
before=$(stat -c %y "$disk")
printf x | dd of="$disk" bs=1 conv=notrunc status=none
[ "$(stat -c %y "$disk")" != "$before" ] || fail "a write did not change the time"
grep "$mount" /proc/mounts | grep -q 'nosuid,nodev' || fail "$(grep "$mount" /proc/mounts)"
unshow
