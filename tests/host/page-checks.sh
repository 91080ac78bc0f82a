#!/usr/bin/env bash
# Page events against cachestat, page by page, on real file systems over loop devices. Needs root and
# eBPF; says SKIPPED otherwise. CHECKS (default 40000) pages are compared on each of them.
#   PAGE_CHECKS=.../page_checks FUSE_SERVER=.../fuse_memory tests/host/page-checks.sh
# seconds: 600
. "$(dirname "$0")/filesystems.sh"
program=$PAGE_CHECKS
checks=${CHECKS:-40000}
in_memory
mkdir "$dir/fuse"

# compare NAME PATH [ARGUMENT...]
compare() {
    local said status
    said=$("$program" "$2" "$checks" "${@:3}")
    status=$?
    # What it skips begins its line, so that it is counted.
    if [ $status -eq 2 ]; then echo "$said"; else echo "$1: $said"; fi
    [ $status -eq 0 ] || [ $status -eq 2 ] || { failed=1; return 1; }
}

# on NAME MKFS OPTIONS: makes the file system and mounts it, or says why not.
on() {
    command -v "${2%% *}" >/dev/null || { skip "$1: no ${2%% *}"; return 1; }
    rm -f "$dir/image"
    truncate -s 512M "$dir/image"
    $2 "$dir/image" >/dev/null 2>&1 || { skip "$1: ${2%% *} failed"; return 1; }
    mount -o "loop,$3" "$dir/image" "$dir/mnt" 2>/dev/null || { skip "$1: cannot mount it here"; return 1; }
}

if [ "$(id -u)" -ne 0 ]; then
    skip "page events: not root"
    exit 0
fi
if on ext4 "mkfs.ext4 -q -F" noatime; then
    compare ext4 "$dir/mnt"
    # Maps that are far too small: events are dropped, and nothing is wrong for it.
    small=$(compare "ext4, small maps" "$dir/mnt" 7 2 || echo failed)
    echo "$small"
    case $small in *" 0 chunks dropped"* | *failed) echo "nothing was dropped, or pages differ"; failed=1 ;; esac
    umount "$dir/mnt"
fi
on xfs "mkfs.xfs -q -f" noatime && { compare xfs "$dir/mnt"; umount "$dir/mnt"; }
if on btrfs "mkfs.btrfs -q -f" noatime; then
    compare btrfs "$dir/mnt"
    btrfs -q subvolume create "$dir/mnt/sub" && compare "btrfs, subvolume" "$dir/mnt/sub"
    umount "$dir/mnt"
fi
on "btrfs, zstd" "mkfs.btrfs -q -f" noatime,compress-force=zstd && { compare "btrfs, zstd" "$dir/mnt"; umount "$dir/mnt"; }
if ! command -v fuse2fs >/dev/null || ! command -v mkfs.ext4 >/dev/null; then
    skip "fuse2fs: not installed"
else
    rm -f "$dir/image"
    truncate -s 256M "$dir/image"
    mkfs.ext4 -q -F "$dir/image" && fuse2fs "$dir/image" "$dir/mnt" -o rw,kernel_cache 2>/dev/null &&
        { compare "fuse, fuse2fs" "$dir/mnt"; umount "$dir/mnt"; } || skip "fuse2fs: cannot mount it here"
fi
if [ -x "${FUSE_SERVER:-}" ]; then
    "$FUSE_SERVER" --size 16777216 "$dir/fuse" >/dev/null 2>&1 &
    server=$!
    is_shown() { [ -f "$dir/fuse/disk" ] || ! kill -0 "$server"; }
    wait_until is_shown
    if [ -f "$dir/fuse/disk" ]; then compare fuse "$dir/fuse/disk"; else skip "fuse: cannot mount it here"; fi
else
    skip "fuse: no server to mount (FUSE_SERVER)"
fi
exit $failed
