#!/usr/bin/env bash
# Root reads a pool of another user: whatever it leaves there (readers, hints of damage) is the
# owner's, who reads and writes as before.
. "$(dirname "$0")/common.sh"
requires_root
requires setpriv
chmod 755 "$dir"
cp "$QUINTET" "$dir/quintet" && chmod 755 "$dir/quintet"
owner() { setpriv --reuid 1234 --regid 1234 --clear-groups env HOME="$dir" "$dir/quintet" "$@"; }
mkdir "$dir/src" && noise "$dir/src/file" 6
new_pool --parity 0
chown -R 1234:1234 "$pool"
exits 0 owner backup "$dir/src"
all_of_owner() {
    local others
    others=$(find "$pool" ! \( -uid 1234 -gid 1234 \))
    [ -z "$others" ] || fail "after $1 these are another user's: $others"
}
for command in "snapshots" "ls latest" "check" "stats" "status" "restore latest --target $dir/back" "gc -n" "backup -n $dir/src"; do
    rm -rf "$pool/readers" "$pool/cache"
    exits 0 q $command
    all_of_owner "root's $command"
    exits 0 owner snapshots
    exits 0 owner backup "$dir/src"
done
# A command that still reads has its hold.
rm -rf "$pool/readers"
mkfifo "$dir/fifo"
(cd "$dir" && exec "$QUINTET" dump latest "$dir/src/file" >"$dir/fifo") &
reader=$!
exec 8<"$dir/fifo"
holds() { [ -n "$(find "$pool/readers" -type f)" ]; }
wait_until holds
all_of_owner "root's dump"
exits 0 owner snapshots
exits 0 owner gc
cat <&8 >/dev/null
exec 8<&-
wait $reader
# The hint of damage.
container=$(find "$pool/containers" -type f -size +1M | sort | head -n 1)
printf '\377\376\375' | dd of="$container" bs=1 seek=3000000 conv=notrunc status=none
exits 21 q check --read-data
all_of_owner "root's check of a damaged pool"
touch "$dir/src/file"
exits 0 owner backup "$dir/src"
exits 0 owner status
