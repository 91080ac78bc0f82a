#!/usr/bin/env bash
# The program is killed with file systems on its volumes: the mount goes away, and the next one has
# what was flushed, in file systems without a fault. Killed together with its guard, the next mount
# takes the place, also after somebody looked at the dead one.
. "$(dirname "$0")/common.sh"
. "$here/loop.sh"
requires_loop
export QUINTET_MEMORY=128M
new_pool
is_mounted() { grep -q " $mount fuse.quintet " /proc/mounts; }
is_unmounted() { ! is_mounted; }
tried=()
for kind in ext4 xfs btrfs; do
    can_make $kind || { echo "no $kind here"; continue; }
    tried+=("$kind")
    exits 0 q volume create $kind --size 400M
done
[ ${#tried[@]} -gt 0 ] || skip "no file system to make"
for kind in "${tried[@]}"; do
    disk=$mount/volumes/$kind
    show
    make_file_system $kind "$disk"
    attach off "$disk"
    noise "$dir/inner/flushed" 5
    cp "$dir/inner/flushed" "$dir/flushed"
    sync "$dir/inner/flushed" && sync -f "$dir/inner"
    noise "$dir/inner/not-flushed" 5
    kill_server
    wait_until is_unmounted
    umount "$dir/inner" 2>/dev/null || umount -l "$dir/inner" || fail "the file system cannot be unmounted"
    show
    # Mounting is what replays a file system's own journal.
    attach off "$disk"
    cmp "$dir/flushed" "$dir/inner/flushed" || fail "$kind: flushed bytes are gone"
    detach
    check $kind "$disk"
    unshow
done
# Guard and program are gone at once: what stays is taken away by who comes next, whatever the
# kernel remembers of it.
for asks in true 'stat -L' 'stat -f' df 'ls -la'; do
    show
    # The kernel answers for a while by itself what it was told before.
    stat "$mount" "$mount/volumes" >/dev/null
    guard=$(pgrep -f -P "$server" mount-guard) || fail "there is no guard"
    $asks "$mount" >/dev/null
    kill -9 "$guard" "$server"
    wait "$server" 2>/dev/null || true
    server=
    is_mounted || fail "somebody unmounted: the test tests nothing"
    $asks "$mount" >/dev/null 2>&1 || true
    show
    is_mounted || fail "the place was not taken, after $asks: $(cat "$dir/mount.err")"
    [ -d "$mount/volumes" ] || fail "nobody serves it, after $asks"
    unshow
done
is_unmounted || fail "something stays mounted: $(grep "$mount" /proc/mounts)"
sound
