#!/usr/bin/env bash
# The map of an ext file system learned from writes only, compared with e2fsprogs block by block. A FUSE file logs the
# writes of a mounted file system under a random workload; the log is applied again, and the layout hears of each write.
# Needs root; says SKIPPED otherwise.
#   POWER_CUTS=.../power_cuts LAYOUT=.../layout tests/layout/run.sh [NAME-PATTERN]
# OPERATIONS of the workload (400; 3000 in the long form), SEED (default 1), CHECKS (1; 3 in the long form) comparisons
# during the run, LAG (default 1) writes between two readings. KEEP=DIRECTORY keeps image and log of each file system there.
. "$(dirname "$0")/../host/filesystems.sh"
record=$POWER_CUTS
layout=$LAYOUT
if long_run; then operations=${OPERATIONS:-3000} checks=${CHECKS:-3}; else operations=${OPERATIONS:-400} checks=${CHECKS:-1}; fi
wanted=${1:-.}
loop=
disk=
stop() {
    umount "$mnt" 2>/dev/null
    # It was given up when it was made; whoever has it open last ends it.
    [ -z "$loop" ] || exec 8<&-
    loop=
    [ -z "$disk" ] || { exec 9>&-; wait "$disk"; } 2>/dev/null
    disk=
}
clean_up() { stop; }
in_memory
mkdir "$dir/disk"

# run NAME MKE2FS-OPTIONS MOUNT-OPTIONS LEAST: that percentage of the blocks in use must be right during the run. A
# journal makes 99 possible at every moment; without one, metadata is written in any order.
run() {
    local name=$1 ready
    [[ $name =~ $wanted ]] || return 0
    rm -f "$dir/image" "$dir/after" "$dir/log" "$dir/to" "$dir/from"
    # shellcheck disable=SC2086
    mke2fs -q -F $2 "$dir/image" 512M || { skip "$name: this mke2fs cannot make it"; return; }
    mkfifo "$dir/to" "$dir/from"
    "$record" record "$dir/disk" "$dir/image" "$dir/log" <"$dir/to" >"$dir/from" 9>&- &
    disk=$!
    exec 9>"$dir/to"
    read -r ready <"$dir/from"
    [ "$ready" = ready ] || { skip "$name: no FUSE here"; disk=; return; }
    loop=$(losetup --show -f --direct-io=on "$dir/disk/disk") || { skip "$name: no loop device"; stop; return; }
    exec 8<"$loop"
    losetup -d "$loop"
    mount -o "noatime,$3" "$loop" "$mnt" || { skip "$name: this kernel does not mount it"; stop; return; }
    python3 "$here/workload.py" "$mnt" "$operations" "${SEED:-1}" 9>&- || { echo "FAILED: $name: the workload"; failed=1; }
    stop
    echo "== $name"
    "$layout" replay "$dir/image" "$dir/log" "$dir/after" "$checks" "${LAG:-1}" "$4" || { echo "FAILED: $name"; failed=1; }
    if [ -n "${KEEP:-}" ]; then mkdir -p "$KEEP/$name" && cp --sparse=always "$dir/image" "$dir/log" "$KEEP/$name"; fi
}

run ext4-4k "-t ext4 -b 4096" commit=1 99
run ext4-1k "-t ext4 -b 1024" commit=1 99
run ext4-2k-ordered "-t ext4 -b 2048" commit=5 99
run ext4-no-journal "-t ext4 -b 4096 -O ^has_journal" async 0
run ext4-data-journal "-t ext4 -b 4096" commit=1,data=journal 99
run ext4-small-journal "-t ext4 -b 1024 -J size=4" commit=1 99
run ext4-inline "-t ext4 -b 4096 -O inline_data" commit=1 99
run ext4-bigalloc "-t ext4 -b 4096 -O bigalloc -C 16384" commit=1 99
run ext4-old-checksums "-t ext4 -b 4096 -O ^64bit,^metadata_csum,uninit_bg" commit=1 99
run ext3-1k "-t ext3 -b 1024" commit=1 99
run ext2-4k "-t ext2 -b 4096" async 0
exit $failed
