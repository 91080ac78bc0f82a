#!/usr/bin/env bash
# ext4, xfs and btrfs on loop devices over volumes of a mount: made, filled, trimmed, unmounted, checked; the
# same after a restart, from a snapshot of the volume and from a clone. Loop devices read buffered and direct.
. "$(dirname "$0")/common.sh"
. "$here/loop.sh"
requires_loop
requires rsync
export QUINTET_MEMORY=128M
real_tree "$dir/tree" 20
new_pool
tried=()
for kind in ext4 xfs btrfs; do
    can_make $kind || { echo "no $kind here"; continue; }
    tried+=("$kind")
    exits 0 q volume create "machines/$kind" --size 400M
done
[ ${#tried[@]} -gt 0 ] || skip "no file system to make"
show
for kind in "${tried[@]}"; do
    disk=$mount/volumes/machines/$kind
    [ "$(stat -c '%s %a' "$disk")" = "$((400 << 20)) 600" ] || fail "$(stat "$disk")"
    make_file_system $kind "$disk"
    attach off "$disk"
    cp -a "$dir/tree" "$dir/inner/"
    head -c 3000000 /dev/urandom >"$dir/inner/gone"
    sync -f "$dir/inner"
    rm "$dir/inner/gone"
    fstrim "$dir/inner" || fail "fstrim $kind"
    detach
    check $kind "$disk"
    exits 0 q volume snapshot "machines/$kind@filled"
done
unshow
sound
show
for kind in "${tried[@]}"; do
    disk=$mount/volumes/machines/$kind
    attach on "$disk"
    same "$dir/tree" "$dir/inner/tree"
    echo changed >"$dir/inner/tree/new"
    detach
    check $kind "$disk"
    # The snapshot is what it was, and cannot be written.
    ! dd if=/dev/zero of="$disk@filled" bs=1 count=1 conv=notrunc 2>/dev/null || fail "a snapshot was written"
    check $kind "$disk@filled"
    exits 0 q volume clone "machines/$kind@filled" "clone of $kind"
    attach off "$mount/volumes/clone of $kind"
    same "$dir/tree" "$dir/inner/tree"
    detach
done
unshow
sound
