#!/usr/bin/env bash
# A region rots: check names it, repair sets it aside, the next plain backup stores it anew, and old snapshots are whole.
# Sealed: a region that rots fails its seal, and what replaces it is sealed anew.
. "$(dirname "$0")/common.sh"
sealed
mkdir "$dir/src"
for n in 1 2 3; do noise "$dir/src/noise$n" 6; done
noise "$dir/disk" 5
new_pool --parity 0
exits 0 q repair
says "no damage"
exits 0 q backup "$dir/src"
first=$(q snapshots --json | grep '"message_type":"snapshot"' | sed 's/.*"short_id":"\([0-9a-f]*\)".*/\1/')
exits 0 q import "$dir/disk" disk

# Three bytes in the middle of every large container change.
rot() {
    local container at
    find "$pool/containers" -type f -size +1M | sort >"$dir/containers"
    while read -r container; do
        at=$(($(stat -c %s "$container") / 2))
        printf '\377\376\375' | dd of="$container" bs=1 seek=$at conv=notrunc status=none
    done <"$dir/containers"
}
cp -r "$pool" "$dir/sound-pool"
rot
exits 21 q check --read-data
says "quintet repair"
exits 21 q repair --dry-run
exits 21 q repair
says "put in quarantine"
says "noise"
exits 21 q check
says "noise"

# Sources that did not change are read again because the pool lost part of them.
exits 0 q backup "$dir/src"
exits 0 q import "$dir/disk" disk
exits 0 q repair
sound
exits 0 q restore "$first:$dir/src" --target "$dir/back"
same "$dir/src" "$dir/back"
exits 0 q export disk "$dir/exported"
cmp "$dir/disk" "$dir/exported"
# And once whole, they are not read again.
q backup "$dir/src" --json >"$dir/json"
grep -q '"files_unmodified":3' "$dir/json" || fail "$(cat "$dir/json")"

# The disk gives the old bytes again: what was in quarantine is taken out of it.
while read -r container; do
    cp "$dir/sound-pool/${container#"$pool"/}" "$container"
done <"$dir/containers"
exits 0 q check --read-data
says "in quarantine and sound"
exits 20 q repair
says "taken out of quarantine"
exits 0 q repair
sound

# Damage to what nobody needs any more is repaired at once.
rm -rf "$pool" && cp -r "$dir/sound-pool" "$pool"
q snapshots --json | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p' >"$dir/ids"
while read -r id; do exits 0 q forget "$id"; done <"$dir/ids"
rot
exits 21 q check --read-data
exits 20 q repair
exits 0 q repair
sound
