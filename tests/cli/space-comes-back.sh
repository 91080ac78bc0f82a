#!/usr/bin/env bash
# What is forgotten can be taken back; then gc gives its space back, and everything else restores.
. "$(dirname "$0")/common.sh"
size() { du -s --block-size=1 "$dir/pool/containers" | cut -f1; }
mkdir "$dir/src" "$dir/back"
new_pool
head -c 8000000 /dev/urandom >"$dir/src/stays"
head -c 8000000 /dev/urandom >"$dir/src/goes"
exits 0 q backup "$dir/src"
rm "$dir/src/goes"
exits 0 q backup "$dir/src"
full=$(size)
first=$(q snapshots --json | grep -o '"id":"[0-9a-f]*"' | head -1 | cut -d'"' -f4)
exits 0 q forget "$first"
grep -q undelete "$dir/err" || fail "forget does not say until when"
[ "$(snapshots)" -eq 1 ] || fail "$(snapshots) snapshots"
exits 0 q gc
[ "$(size)" -ge "$full" ] || fail "gc deleted what undelete needs"
# Sizes of one kind are in one unit: what is needed is no more than what is stored, also of data that compresses well;
# volumes without data are not counted as deduplicated; status and stats agree.
exits 0 q volume create empty --size 1T
exits 0 q gc --json
number() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$dir/out" | tail -n 1; }
needed=$(number live_stored_bytes)
exits 0 q stats --json
[ "$needed" -gt 0 ] && [ "$needed" -le "$(number stored_bytes)" ] || fail "$needed needed: $(cat "$dir/out")"
[ "$(number volumes_bytes)" -eq $((1 << 40)) ] || fail "$(cat "$dir/out")"
awk -v ratio="$(number deduplication_ratio)" 'BEGIN { exit ratio < 100 ? 0 : 1 }' || fail "$(cat "$dir/out")"
logical=$(number logical_bytes)
exits 0 q status --json
grep -q "\"logical_bytes\":$logical,\"stored_bytes\"" "$dir/out" || fail "stats has $logical: $(cat "$dir/out")"
exits 0 q stats
grep -q "only for undelete" "$dir/out" || fail "$(cat "$dir/out")"
exits 0 q undelete
grep -q "1 snapshot in the trash" "$dir/out" || fail "$(cat "$dir/out")"
exits 0 q undelete "$first"
[ "$(snapshots)" -eq 2 ] || fail "undelete"
exits 0 q restore "$first" --target "$dir/back"
[ -n "$(find "$dir/back" -name goes -size 8000000c)" ] || fail "not whole after undelete"
exits 0 q forget "$first"
exits 0 q gc --dry-run --trash-period 0 --json
grep -q '"snapshots_purged":1' "$dir/out" || fail "$(cat "$dir/out")"
[ "$(size)" -ge "$full" ] || fail "a dry run deleted something"
would=$(number deleted_bytes)
[ "$would" -gt $((full * 4 / 10)) ] || fail "the dry run says that $would of $full bytes would be deleted"
exits 0 q gc --trash-period 0
[ "$(size)" -lt $((full * 6 / 10)) ] || fail "$(size) of $full bytes are left"
exits 1 q undelete "$first"
exits 1 q gc --trash-period soon
sound
rm -rf "$dir/back"
exits 0 q restore latest --target "$dir/back"
cmp "$dir/src/stays" "$(find "$dir/back" -name stays)" || fail "not the same"
