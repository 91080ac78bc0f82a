#!/usr/bin/env bash
# The map of an ext file system learned from writes only, compared with e2fsprogs block by block. A FUSE file logs the
# writes of a mounted file system under a random workload; the log is applied again, and the layout hears of each write.
# Needs root; says SKIPPED otherwise.
#   POWER_CUTS=.../power_cuts LAYOUT=.../layout tests/layout/run.sh [NAME-PATTERN]
# OPERATIONS (default 3000) of the workload, SEED (default 1), CHECKS (default 3) comparisons during the run, LAG (default
# 1) writes between two readings, DIR for scratch, which KEEP=1 keeps.
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/../.." || exit 1
record=${POWER_CUTS:-target/release/examples/power_cuts}
layout=${LAYOUT:-target/release/examples/layout}
wanted=${1:-.}
dir=$(mktemp -d "${DIR:-/dev/shm}/layout.XXXXXX") || exit 1
mnt=$dir/mnt
loop=
disk=
failed=0
skip() { echo "SKIPPED: $*" >&2; }
stop() {
    umount "$mnt" 2>/dev/null
    [ -z "$loop" ] || losetup -d "$loop"
    loop=
    [ -z "$disk" ] || { exec 9>&-; wait "$disk"; } 2>/dev/null
    disk=
}
trap 'stop; [ -n "${KEEP:-}" ] || rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
mkdir "$mnt" "$dir/disk"

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
    mount -o "noatime,$3" "$loop" "$mnt" || { skip "$name: this kernel does not mount it"; stop; return; }
    python3 tests/layout/workload.py "$mnt" "${OPERATIONS:-3000}" "${SEED:-1}" 9>&- || { echo "FAILED: $name: the workload"; failed=1; }
    stop
    echo "== $name"
    "$layout" replay "$dir/image" "$dir/log" "$dir/after" "${CHECKS:-3}" "${LAG:-1}" "$4" || { echo "FAILED: $name"; failed=1; }
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
