#!/usr/bin/env bash
# Power cuts while `quintet host defrag run` moves extents, block by block. A disk with a volatile cache logs the writes
# and flushes of a file system (a file served through FUSE, with a loop device over it). Then the disk is made again as a
# power cut at each flush leaves it: with none of the writes after the flush, or a random subset, some torn. It is
# mounted, every byte is compared, and the file system is checked. Needs root; says SKIPPED otherwise.
#   QUINTET=.../quintet POWER_CUTS=.../power_cuts MIGRATIONS_PROGRAM=.../migrations tests/host/power-cuts.sh [ext4|xfs|btrfs]...
# CUTS (8; 24 in the long form) on each file system, FLUSHES (150; 900 in the long form) beside migrations and a writer before
# a run, and again after it, SEED (default 1). KEEP=DIRECTORY keeps image and log of each file system there. The canaries
# (careless migrations, and a disk that ignores flushes) must be noticed; the short form cuts until they are.
# seconds: 600
. "$(dirname "$0")/filesystems.sh"
program=$POWER_CUTS
migrations=$MIGRATIONS_PROGRAM
if long_run; then cuts=${CUTS:-24} recorded=${FLUSHES:-900}; else cuts=${CUTS:-8} recorded=${FLUSHES:-150}; fi
seed=${SEED:-1}
loop=
disk=
running=()
stop_running() {
    local one
    for one in ${running[@]+"${running[@]}"}; do kill -9 "$one" 2>/dev/null; wait "$one" 2>/dev/null; done
    running=()
}
# stop_disk: the file system, the loop device and the server, in this order.
stop_disk() {
    stop_running
    umount "$mnt" 2>/dev/null || umount -l "$mnt" 2>/dev/null
    # It was given up when it was made; whoever has it open last ends it.
    [ -z "$loop" ] || exec 8<&-
    loop=
    [ -z "$disk" ] || { exec 9>&-; wait "$disk"; } 2>/dev/null
    disk=
}
clean_up() { stop_disk; }
in_memory
mkdir "$dir/disk"
sum_of() { cksum <"$1"; }

# What writers use beside migrations. On ext4 a write that is synced by fdatasync between an exchange and the commit
# that follows it is lost in a power cut (docs/host.md); `after_moving` tests fdatasync when the command has ended.
sync_of() { case $1 in ext4) echo fsync ;; *) echo fdatasync ;; esac }

# Bytes that a disk writes as a whole. btrfs relies on its superblock, 4 KiB, being written as a whole, and xfs on the
# blocks of its trees: torn at 512 bytes, 20 of 800 cuts of one log had a block of a free-space tree that recovery
# refused; at 4096 none of the same 800.
unit_of() { case $1 in ext4) echo 512 ;; *) echo 4096 ;; esac }

# prepare FS: makes $dir/image with fragmented files, and $dir/sums.
prepare() {
    command -v "mkfs.$1" >/dev/null || { skip "$1: no mkfs.$1"; return 1; }
    rm -f "$dir/image" "$dir/log" "$dir/journal" "$dir/log.fails"
    truncate -s 320M "$dir/image"
    case $1 in
    ext4) mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$dir/image" ;;
    *) "mkfs.$1" -q -f "$dir/image" ;;
    esac >/dev/null 2>&1 || { skip "$1: mkfs.$1 failed"; return 1; }
    mount -o loop,noatime "$dir/image" "$mnt" 2>/dev/null || { skip "$1: cannot mount it here"; return 1; }
    "$migrations" fragment "$mnt/looped" 4 && "$migrations" fragment "$mnt/written" 2 || { wrong "$1: no fragmented file"; return 1; }
    for n in 1 2 3 4 5 6 7 8; do "$migrations" fragment "$mnt/still$n" 1 || { wrong "$1: no fragmented file"; return 1; }; done
    "$program" write "$mnt/written" "$dir/log" "$dir/journal" fsync || { wrong "$1: no stamped file"; return 1; }
    sync -f "$mnt"
    (cd "$mnt" && cksum still* looped) >"$dir/sums"
    umount "$mnt"
}

# start_disk FS: mounts what is in $dir/image, from a disk that logs.
start_disk() {
    local ready
    rm -f "$dir/to" "$dir/from"
    mkfifo "$dir/to" "$dir/from"
    "$program" record "$dir/disk" "$dir/image" "$dir/log" <"$dir/to" >"$dir/from" 9>&- &
    disk=$!
    exec 9>"$dir/to"
    read -r ready <"$dir/from"
    [ "$ready" = ready ] || { skip "$1: no FUSE here"; disk=; return 1; }
    loop=$(losetup --show -f --direct-io=on "$dir/disk/disk") || { skip "$1: no loop device over FUSE"; stop_disk; return 1; }
    exec 8<"$loop"
    losetup -d "$loop"
    mount -o noatime "$loop" "$mnt" || { wrong "$1: the logging disk cannot be mounted"; stop_disk; return 1; }
}

# begin COMMAND...: runs it until stop_running, and waits for its first line.
begin() {
    : >"$dir/began"
    "$@" >"$dir/began" 2>"$dir/errors" 9>&- &
    running+=($!)
    wait_until grep -q began "$dir/began"
}

# flushed COUNT: waits until the disk has logged so many flushes more.
flushed() {
    local wanted
    wanted=$(($("$program" flushes "$dir/log" 2>/dev/null) + $1))
    wait_until has_flushes "$wanted"
}
# The end of the log may be half written just now.
has_flushes() { [ "$("$program" flushes "$dir/log")" -ge "$1" ]; }

# record FS: migrations beside a writer.
record() {
    local moved
    start_disk "$1" || return 1
    begin "$program" write "$mnt/written" "$dir/log" "$dir/journal" "$(sync_of "$1")"
    begin "$migrations" loop "$mnt/looped"
    flushed "$recorded"
    # Others are busy with the looped file, or claim it.
    "$quintet" host defrag run "$mnt" --json >"$dir/json" 2>"$dir/errors" 9>&-
    moved=$(sed -n 's/.*"moved_bytes":\([0-9]*\).*/\1/p' "$dir/json" | tail -n 1)
    [ "${moved:-0}" -ge 8000000 ] || wrong "$1: only ${moved:-0} bytes moved: $(cat "$dir/errors")"
    flushed "$recorded"
    stop_disk
}

# record_after FS: what is written and synced by fdatasync when a run has ended.
record_after() {
    : >"$dir/journal"
    start_disk "$1" || return 1
    "$quintet" host defrag run "$mnt/written" --json >"$dir/json" 2>"$dir/errors" 9>&-
    # On btrfs the file has become one piece.
    [ "$1" = btrfs ] || grep -q '"moved_bytes":[1-9]' "$dir/json" || wrong "$1: nothing moved: $(cat "$dir/json" "$dir/errors")"
    begin "$program" write "$mnt/written" "$dir/log" "$dir/journal" fdatasync
    flushed "$((recorded / 3))"
    stop_disk
}

# record_careless FS: punches and writes back.
record_careless() {
    start_disk "$1" || return 1
    "$program" careless "$mnt/still1" 9>&- &
    running+=($!)
    flushed "$((recorded / 3))"
    stop_disk
}

# look FS CUT SEED [IGNORED]: the disk after a power cut. Says what is wrong, and is false then.
look() {
    local fs=$1 position unit status=0
    unit=$(unit_of "$fs")
    position=$("$program" replay "$dir/image" "$dir/log" "$2" "$3" "$unit" "$dir/after" "${@:4}") || { echo "no replay"; return 1; }
    mount -o loop,noatime "$dir/after" "$mnt" 2>"$dir/errors" || { echo "no mount: $(cat "$dir/errors")"; return 1; }
    (cd "$mnt" && cksum still* looped) 2>&1 | cmp -s "$dir/sums" - || { echo "other bytes: $(cd "$mnt" && cksum still* looped 2>&1 | diff "$dir/sums" - | tr '\n' ' ')"; status=1; }
    "$program" check "$mnt/written" "$dir/journal" "$position" "$unit" || status=1
    umount "$mnt" || return 1
    case $fs in
    ext4) e2fsck -fn "$dir/after" ;;
    xfs) xfs_repair -n "$dir/after" ;;
    btrfs) btrfs check --readonly --check-data-csum "$dir/after" ;;
    esac >"$dir/fsck" 2>&1 || { tail -n 5 "$dir/fsck"; status=1; }
    return $status
}

# cut FS COUNT FUNCTION: power cuts at flushes all over the log, half of them with a subset of the later writes. Calls
# FUNCTION with the flush and seed of each that looks wrong.
cut() {
    local fs=$1 count=$2 flushes n flush subset said
    flushes=$("$program" flushes "$dir/log")
    for n in $(seq 0 $((count - 1))); do
        # In an order that has all of the log among the first of them, and not at equal distances: a round of the
        # canary has four flushes on btrfs, and 24 cuts in 96 flushes were all at the end of one.
        flush=$((((n * 10007 + 9) % count * (flushes + 1) + ((n + 1) * 2654435761 >> 16) % (flushes + 1)) / count))
        subset=$((n % 4 == 0 ? 0 : seed * 100000 + n))
        # Noticed once is noticed.
        [ "$3" != noticed ] || long_run || [ "$seen" -eq 0 ] || { count=$n; break; }
        said=$(look "$fs" "$flush" "$subset" "${@:4}") || { "$3" "$fs" "$flush" "$subset" "$said"; umount -l "$mnt" 2>/dev/null; }
    done
    echo "$fs: $count power cuts at $flushes flushes, $(($(stat -c %s "$dir/log") >> 10)) KiB written"
}
# A failure of a test, and what a canary waits for.
bad() { wrong "$1: power cut at flush $2, subset $3: $4"; }
noticed() { seen=$((seen + 1)); }

canary() { # FS WHAT
    [ "$seen" -gt 0 ] || wrong "$1: $2 was not noticed"
    echo "$1: $2: noticed at $seen cuts"
}

# Writes fail while extents move: it is said, and a mount of what the disk has shows every byte.
failing_disk() {
    local fs=$1
    start_disk "$fs" || return
    # All is in memory, also the programs: only writes are wanted.
    cat "$mnt"/still* >/dev/null
    (sleep 0.3; : >"$dir/log.fails") &
    running+=($!)
    # A fast machine must not have moved all 14 MiB before.
    for _ in $(seq 20); do
        [ ! -e "$dir/log.fails" ] || break
        "$quintet" host defrag run "$mnt" --json --limit-bytes 256K >"$dir/json" 2>"$dir/errors" 9>&-
    done
    : >"$dir/log.fails"
    "$quintet" host defrag run "$mnt" --json >"$dir/json" 2>"$dir/errors" 9>&-
    echo "$fs: failing disk: exit code $?, $(sed 's/.*message":"//' "$dir/errors" | head -n 1)"
    grep -Eq '"reason":"(io|read_only)"' "$dir/json" || wrong "$fs: a failing disk is not named: $(cat "$dir/json" "$dir/errors")"
    grep -q 'moved_bytes":[1-9]' "$dir/json" && wrong "$fs: moved on a failing disk: $(cat "$dir/json")"
    stop_disk
    # What the disk has now is the log to its end.
    said=$(look "$fs" "$(($("$program" flushes "$dir/log") + 1))" 0) || wrong "$fs: after a failing disk: $said"
    umount -l "$mnt" 2>/dev/null
}

if [ "$(id -u)" -ne 0 ]; then
    skip "power cuts: not root"
    exit 0
fi
for fs in ${*:-ext4 xfs btrfs}; do
    prepare "$fs" || continue
    record "$fs" || continue
    cut "$fs" "$cuts" bad
    if [ -n "${KEEP:-}" ]; then mkdir -p "$KEEP/$fs" && cp --sparse=always "$dir/image" "$dir/log" "$dir/journal" "$dir/sums" "$KEEP/$fs"; fi
    seen=0
    cut "$fs" 48 noticed 100
    canary "$fs" "a disk that ignores flushes"
    record_after "$fs" && cut "$fs" "$((cuts / 2))" bad
    : >"$dir/journal"
    record_careless "$fs" || continue
    seen=0
    cut "$fs" 24 noticed
    canary "$fs" "punching and writing back"
    failing_disk "$fs"
done
exit $failed
