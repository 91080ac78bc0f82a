#!/usr/bin/env bash
# What a long reader reads stays, whatever is forgotten and collected meanwhile; what a killed one held
# goes; who cannot hold says so.
. "$(dirname "$0")/common.sh"
new_pool
mkdir "$dir/src" "$mount"
size() { du -s --block-size=1 "$dir/pool/containers" | cut -f1; }
holds() { find "$pool/readers" -type f 2>/dev/null | wc -l; }
noise "$dir/src/goes" 8
exits 0 q backup "$dir/src"
cp -a "$dir/src" "$dir/kept"
rm "$dir/src/goes"
noise "$dir/src/stays" 1
show --read-only
[ "$(holds)" -eq 1 ] || fail "$(holds) holds"
exits 0 q backup "$dir/src"
first=$(q snapshots --json | grep -o '"id":"[0-9a-f]*"' | head -1 | cut -d'"' -f4)
exits 0 q forget "$first"
for round in 1 2 3; do
    exits 0 q gc --trash-period 0
    says "mount, process $server on"
done
exits 0 q gc --trash-period 0 --json
grep -q '"message_type":"held_by_reader".*"reader":"mount, process' "$dir/out" || fail "$(cat "$dir/out")"
[ "$(size)" -gt 8000000 ] || fail "gc deleted what the mount reads"
# Nothing of it was read before: neither the kernel nor the program has it.
cmp "$mount/snapshots/latest$dir/src/goes" "$dir/kept/goes" || fail "the reader lost what it reads"
# Killed, it holds nothing, and its file goes.
kill_server
exits 0 q gc --trash-period 0
! grep -q 'a reader needs' "$dir/err" || fail "$(cat "$dir/err")"
[ "$(size)" -lt 4000000 ] || fail "a dead reader's hold stays: $(size) bytes"
[ "$(holds)" -eq 0 ] || fail "$(holds) files of dead readers"
# Files that nobody has locked hold nothing, whatever they say; others are not looked at.
mkdir -p "$pool/readers"
echo forged >"$pool/readers/0123456789abcdef"
echo other >"$pool/readers/README"
exits 0 q gc --trash-period 0
[ ! -e "$pool/readers/0123456789abcdef" ] && [ -e "$pool/readers/README" ] || fail "$(ls "$pool/readers")"
# One that is locked and says nothing sensible holds all, and is named.
echo forged >"$pool/readers/0123456789abcdef"
exec 9<>"$pool/readers/0123456789abcdef"
flock -n 9
noise "$dir/src/goes" 8
exits 0 q backup "$dir/src"
rm "$dir/src/goes"
exits 0 q backup "$dir/src"
exits 0 q forget --keep-last 1
exits 0 q gc --trash-period 0
says "readers/0123456789abcdef"
exec 9<&-
exits 0 q gc --trash-period 0
[ "$(size)" -lt 4000000 ] || fail "a hold that ended stays: $(size) bytes"
sound
