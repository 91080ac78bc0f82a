# Sourced by scripts that put file systems on files of a mount.

requires_loop() {
    requires_root
    requires losetup mount
    losetup -f >/dev/null 2>&1 || skip "there are no loop devices here"
    mkdir "$dir/inner"
    mounted=("$dir/inner" ${mounted[@]+"${mounted[@]}"})
}

# can_make KIND: this system can make and mount it.
can_make() {
    command -v "mkfs.$1" >/dev/null && { grep -qw "$1" /proc/filesystems || modprobe "$1" 2>/dev/null; }
}

make_file_system() {
    local force=-f
    [ "$1" != ext4 ] || force=-F
    "mkfs.$1" -q $force "$2" >"$dir/mkfs" 2>&1 || fail "mkfs.$1: $(cat "$dir/mkfs")"
}

# attach DIRECT FILE: mounts what is in the file at $dir/inner, over a loop device that reads it so.
# The device goes away when that is unmounted.
attach() {
    local loop
    loop=$(losetup -f --show --direct-io="$1" "$2") || fail "losetup $2"
    mount "$loop" "$dir/inner" || { losetup -d "$loop"; fail "mount $2"; }
    losetup -d "$loop"
}

detach() {
    umount "$dir/inner" || fail "umount"
}

# check KIND FILE: the file system has no fault.
check() {
    local loop
    loop=$(losetup -r -f --show "$2") || fail "losetup $2"
    # It goes away with the last who has it open.
    exec {open_loop}<"$loop"
    losetup -d "$loop"
    case $1 in
    ext4) e2fsck -fn "$loop" ;;
    xfs) xfs_repair -n "$loop" ;;
    btrfs) btrfs check --readonly "$loop" ;;
    esac >"$dir/fsck" 2>&1 || fail "$1: $(tail -n 5 "$dir/fsck")"
    exec {open_loop}<&-
}
