#!/usr/bin/env bash
# Moving extents on real file systems over loop devices: beside writers, under kill -9, through crashes of the
# file system, on a full disk, with a disk that fails, and what must be left alone. Needs root; says SKIPPED
# otherwise. MIGRATIONS (100, or 200 in the long form) on each file system beside writers, KILLS (2, or 4) kills and crashes.
# The short form has every kind of fault on every file system, and careless migrations must be noticed in it too: fewer
# repetitions find a fault that is there at random later, and none that is always there.
#   QUINTET=.../quintet MIGRATIONS_PROGRAM=.../migrations tests/host/migrations.sh [ext4|xfs|btrfs]...
# seconds: 600
. "$(dirname "$0")/filesystems.sh"
program=$MIGRATIONS_PROGRAM
if long_run; then count=${MIGRATIONS:-200} kills=${KILLS:-4}; else count=${MIGRATIONS:-100} kills=${KILLS:-2}; fi
running=
swap=
clean_up() {
    [ -z "$running" ] || { kill -9 "$running"; wait "$running"; } 2>/dev/null
    [ -z "$swap" ] || swapoff "$swap"
}
in_memory
mkdir "$dir/small"

again() { mount -o loop,noatime "$dir/image" "$mnt"; }

# check FS WHAT: after umount.
check() {
    case $1 in
    ext4) e2fsck -fn "$dir/image" ;;
    xfs) xfs_repair -n "$dir/image" ;;
    btrfs) btrfs check --readonly --check-data-csum "$dir/image" ;;
    esac >"$dir/fsck" 2>&1 || { wrong "$2: the file system is damaged"; cat "$dir/fsck"; }
}

# A run as users do it, and its reason for leaving a file alone.
defrag() { "$quintet" host defrag run "$@" --json; }
left_alone() { # FILE REASON [OPTION...]
    local file=$1 reason=$2 before
    shift 2
    before=$(sum_of "$file")
    defrag "$file" "$@" >"$dir/json" 2>"$dir/errors"
    grep -q "\"reason\":\"$reason\"" "$dir/json" || wrong "$file is not left alone as $reason: $(cat "$dir/json" "$dir/errors")"
    grep -q '"moved_bytes":[1-9]' "$dir/json" && wrong "$file ($reason) was moved"
    [ "$before" = "$(sum_of "$file")" ] || wrong "$file ($reason) changed"
}
sum_of() { cksum <"$1"; }
pieces_of() { "$quintet" host defrag analyse "$1" --json | sed -n 's/.*"summary","files":[0-9]*,"failed":[0-9]*,"pieces":\([0-9]*\).*/\1/p'; }
cold() {
    sync "$1"
    # A fragment is only as good as what the device has: no page may answer for it.
    dd of="$1" oflag=nocache conv=notrunc,fdatasync count=0 status=none
    dd if="$1" iflag=nocache count=0 status=none
}

# Everything as a user sees it: one file, moved, every byte the same.
whole_run() {
    local fs=$1 before after sums
    fresh "$fs" || return 1
    "$program" fragment "$mnt/file" 4 || { wrong "$fs: no fragmented file"; return 1; }
    sums=$(sum_of "$mnt/file")
    before=$(pieces_of "$mnt/file")
    defrag "$mnt" --dry-run | grep -q '"dry_run":true.*"planned_bytes":4194304,.*"moved_bytes":0' || wrong "$fs: the dry run does not plan 4 MiB"
    [ "$before" = "$(pieces_of "$mnt/file")" ] || wrong "$fs: a dry run moved something"
    defrag "$mnt" --limit-bytes 1M | grep -q '"limit_reached":true' || wrong "$fs: no limit"
    "$quintet" host defrag run "$mnt" >"$dir/text" || wrong "$fs: exit code $?"
    after=$(pieces_of "$mnt/file")
    echo "$fs: $before pieces, then $after: $(tail -n 1 "$dir/text")"
    [ "$before" -gt 500 ] && [ "$after" -le 8 ] || wrong "$fs: $before pieces, then $after"
    cold "$mnt/file"
    [ "$sums" = "$(sum_of "$mnt/file")" ] || wrong "$fs: other bytes"
    "$program" odd "$mnt" || wrong "$fs: odd file"
    umount "$mnt"
    check "$fs" "$fs, run"
    again && [ "$sums" = "$(sum_of "$mnt/file")" ] || wrong "$fs: other bytes after a mount"
    umount "$mnt"
}

# Writers beside migrations; the same done carelessly must be noticed.
beside_writers() {
    local fs=$1
    fresh "$fs" || return
    MODEL=$dir/model "$program" run "$mnt" "$count" "${SEED:-1}" | sed "s/^/$fs: /"
    [ "${PIPESTATUS[0]}" -eq 0 ] || wrong "$fs: bytes are wrong beside writers"
    umount "$mnt"
    check "$fs" "$fs, writers"
    again
    cmp "$dir/model" "$mnt/migrated" || wrong "$fs: bytes are wrong after a mount"
    "$program" careless "$mnt" 200 >"$dir/careless" && wrong "$fs: careless migrations were not noticed: $(cat "$dir/careless")"
    umount "$mnt"
}

# used: bytes in use, when everything that was deleted is freed.
used() {
    sync -f "$mnt"
    case $1 in btrfs) btrfs filesystem sync "$mnt" ;; esac >/dev/null
    df --output=used -B 4096 "$mnt" | tail -n 1
}

start() { # loop, or hold
    : >"$dir/began"
    "$program" "$1" "$mnt/file" >"$dir/began" 2>"$dir/errors" &
    running=$!
    wait_until grep -q began "$dir/began"
}

# Killed at random: no byte changes and no space stays taken.
killed() {
    local fs=$1 sums before after slack
    fresh "$fs" || return
    "$program" fragment "$mnt/file" 4 || { wrong "$fs: no fragmented file"; return; }
    sums=$(sum_of "$mnt/file")
    # The maps of a fragmented file need blocks too: fewer later, never more.
    before=$(used "$fs")
    for _ in $(seq "$kills"); do
        start loop
        sleep "0.$((RANDOM % 40 + 10))"
        kill -9 "$running"
        wait "$running" 2>/dev/null
        running=
        [ "$sums" = "$(sum_of "$mnt/file")" ] || wrong "$fs: other bytes after kill -9"
    done
    umount "$mnt"
    check "$fs" "$fs, kill -9"
    again
    after=$(used "$fs")
    [ "$sums" = "$(sum_of "$mnt/file")" ] || wrong "$fs: other bytes after kill -9 and a mount"
    # btrfs keeps all of an old extent while a part of it is referenced, so only the file's end shows
    # whether a donor was left behind.
    if [ "$fs" = btrfs ]; then
        rm "$mnt/file"
        sync -f "$mnt"
        after=$(used "$fs")
    fi
    slack=64
    echo "$fs: $kills kills; blocks in use $before, then $after"
    [ "$after" -le $((before + slack)) ] || wrong "$fs: $before blocks in use, then $after"
    umount "$mnt"
}

# The file system stops in the middle and forgets what its journal has not: recovery, and every byte.
crashed() {
    local fs=$1 sums
    command -v xfs_io >/dev/null || { skip "$fs: crashes: no xfs_io"; return; }
    fresh "$fs" || return
    "$program" fragment "$mnt/file" 4 || { wrong "$fs: no fragmented file"; return; }
    sync -f "$mnt"
    sums=$(sum_of "$mnt/file")
    for n in $(seq "$kills"); do
        start loop
        sleep "0.$((RANDOM % 40 + 10))"
        if ! xfs_io -x -c shutdown "$mnt" 2>/dev/null; then
            skip "$fs: crashes: the file system cannot be shut down here"
            kill -9 "$running"; wait "$running" 2>/dev/null; running=
            umount "$mnt"
            return
        fi
        # It has ended by itself, unless it waited.
        kill -9 "$running" 2>/dev/null
        wait "$running" 2>/dev/null
        running=
        umount "$mnt"
        again || { wrong "$fs: no mount after crash $n"; return; }
        [ "$sums" = "$(sum_of "$mnt/file")" ] || { wrong "$fs: other bytes after crash $n"; break; }
    done
    umount "$mnt"
    check "$fs" "$fs, crashes"
    echo "$fs: $n crashes"
}

# Nothing is free: nothing moves, and nothing stays behind.
full() {
    local fs=$1 before after
    fresh "$fs" || return
    "$program" fragment "$mnt/file" 4 || { wrong "$fs: no fragmented file"; return; }
    dd if=/dev/zero of="$mnt/rest" bs=1M status=none 2>/dev/null
    dd if=/dev/zero of="$mnt/rest2" bs=4k status=none 2>/dev/null
    before=$(used "$fs")
    left_alone "$mnt/file" no_space
    after=$(used "$fs")
    [ "$after" -le $((before + 8)) ] || wrong "$fs: full disk: $before blocks in use, then $after"
    umount "$mnt"
    check "$fs" "$fs, full"
}

refusals() {
    local fs=$1
    fresh "$fs" || return
    "$program" fragment "$mnt/file" 2 || { wrong "$fs: no fragmented file"; return; }
    chattr +i "$mnt/file" && { left_alone "$mnt/file" immutable; chattr -i "$mnt/file"; }
    chattr +a "$mnt/file" && { left_alone "$mnt/file" append_only; chattr -a "$mnt/file"; }
    mount -o remount,ro "$mnt" && { left_alone "$mnt/file" read_only; mount -o remount,rw "$mnt"; }
    start hold
    left_alone "$mnt/file" held_by_another
    kill -9 "$running"; wait "$running" 2>/dev/null; running=
    case $fs in
    ext4)
        "$program" fragment "$mnt/file" 2
        chmod +x "$mnt/file"; left_alone "$mnt/file" program; chmod -x "$mnt/file"
        umount "$mnt"; mount -o loop,data=writeback "$dir/image" "$mnt"
        left_alone "$mnt/file" not_ordered
        umount "$mnt"; again
        refuse_swap ext4
        ;;
    xfs)
        "$program" fragment "$mnt/file" 2
        refuse_shared xfs
        refuse_swap xfs
        ;;
    btrfs)
        "$program" fragment "$mnt/file" 2
        refuse_shared btrfs
        btrfs property set "$mnt" compression zstd
        yes "some text" | head -c 2M >"$mnt/compressed"
        sync "$mnt/compressed"
        # An extent of 128 KiB fills a window: only others within it are breaks.
        for n in $(seq 0 8 63); do
            yes "$n" | head -c 32K | dd of="$mnt/compressed" bs=32K seek="$n" conv=notrunc,fdatasync status=none
        done
        left_alone "$mnt/compressed" compressed
        ;;
    esac
    umount "$mnt"
    check "$fs" "$fs, refusals"
}

refuse_shared() {
    local fs=$1 copy
    cp --reflink=always "$mnt/file" "$mnt/copy" || { wrong "$fs: no reflink"; return; }
    sync -f "$mnt"
    left_alone "$mnt/file" shared
    copy=$(pieces_of "$mnt/copy")
    defrag "$mnt/file" --shared | grep -q '"moved_bytes":2097152' || wrong "$fs: --shared does not move"
    cmp "$mnt/file" "$mnt/copy" || wrong "$fs: --shared changed bytes"
    [ "$copy" = "$(pieces_of "$mnt/copy")" ] || wrong "$fs: --shared moved the other file too"
    rm "$mnt/copy"
    "$program" fragment "$mnt/file" 2
}

refuse_swap() {
    local fs=$1
    chmod 600 "$mnt/file"
    mkswap "$mnt/file" >/dev/null 2>&1
    swapon "$mnt/file" 2>/dev/null || { skip "$fs: swap files: cannot use one here"; return; }
    swap=$mnt/file
    left_alone "$mnt/file" swap_file
    swapoff "$mnt/file"
    swap=
}

# The device fails when new blocks are written: its image lies on a file system that is full.
failing_device() {
    local fs=$1 sums
    mount -t tmpfs -o size=460M tmpfs "$dir/small" || { skip "$fs: failing device: no tmpfs"; return; }
    command -v "mkfs.$fs" >/dev/null && make "$fs" "$dir/small/image" 400M &&
        mount -o loop,noatime "$dir/small/image" "$mnt" 2>/dev/null || { skip "$fs: failing device: cannot mount it here"; umount "$dir/small"; return; }
    "$program" fragment "$mnt/file" 4 || { wrong "$fs: no fragmented file"; return; }
    # The journal has its blocks by now.
    for n in $(seq 300); do echo "$n" >"$mnt/warm$n"; done
    sync -f "$mnt"
    fstrim "$mnt" 2>/dev/null
    sums=$(sum_of "$mnt/file")
    dd if=/dev/zero of="$dir/small/rest" bs=1M status=none 2>/dev/null
    defrag "$mnt/file" >"$dir/json" 2>"$dir/errors"
    echo "$fs: failing device: exit code $?, $(sed 's/.*message":"//' "$dir/errors" | head -n 1)"
    # The loop device answers with ENOSPC.
    grep -Eq '"reason":"(io|no_space)"' "$dir/json" || wrong "$fs: a failing device is not named: $(cat "$dir/json" "$dir/errors")"
    [ "$sums" = "$(sum_of "$mnt/file")" ] || wrong "$fs: other bytes in memory after EIO"
    cold "$mnt/file"
    [ "$sums" = "$(sum_of "$mnt/file")" ] || wrong "$fs: other bytes on the device after EIO"
    rm "$dir/small/rest"
    umount "$mnt"
    mount -o loop,noatime "$dir/small/image" "$mnt" && [ "$sums" = "$(sum_of "$mnt/file")" ] || wrong "$fs: other bytes after EIO and a mount"
    umount "$mnt"
    umount "$dir/small"
}

if [ "$(id -u)" -ne 0 ]; then
    skip "migrations: not root"
    exit 0
fi
for fs in ${*:-ext4 xfs btrfs}; do
    for part in ${PARTS:-whole_run beside_writers killed crashed full refusals failing_device}; do
        "$part" "$fs"
        umount -l "$mnt" 2>/dev/null
    done
done
exit $failed
