#!/usr/bin/env bash
# File systems in a volume's file: made, filled, trimmed, unmounted, checked; buffered and direct.
. "$(dirname "$0")/common.sh"
requires_loop
show $((512 << 20))
mkdir "$dir/inner" "$dir/source"
for n in 1 2 3 4 5 6; do head -c $((n * 3000000)) /dev/urandom >"$dir/source/file$n"; done
tried=0
for kind in ext4 xfs btrfs; do
    command -v mkfs.$kind >/dev/null && grep -qw $kind /proc/filesystems || { echo "no $kind here"; continue; }
    tried=$((tried + 1))
    for direct in off on; do
        case $kind in ext4) force=-F ;; *) force=-f ;; esac
        mkfs.$kind -q $force "$disk" >"$dir/mkfs" 2>&1 || fail "mkfs.$kind: $(cat "$dir/mkfs")"
        attach --direct-io=$direct
        mount "$loop" "$dir/inner" || fail "mount $kind"
        cp "$dir"/source/* "$dir/inner/"
        rm "$dir/inner/file5"
        sync -f "$dir/inner"
        fstrim "$dir/inner" || fail "fstrim $kind"
        printf "\nchanged" >>"$dir/inner/file1"
        umount "$dir/inner"
        detach
        attach --direct-io=$direct
        mount "$loop" "$dir/inner" || fail "mount $kind again"
        for n in 2 3 4 6; do cmp "$dir/source/file$n" "$dir/inner/file$n"; done
        [ "$(tail -n 1 "$dir/inner/file1")" = changed ] || fail "$kind lost an appended line"
        umount "$dir/inner"
        case $kind in
        ext4) e2fsck -fn "$loop" ;;
        xfs) xfs_repair -n "$loop" ;;
        btrfs) btrfs check "$loop" ;;
        esac >"$dir/fsck" 2>&1 || fail "$kind, direct $direct: $(tail -n 5 "$dir/fsck")"
        detach
    done
done
[ $tried -gt 0 ] || skip "no file system to make"
unshow
