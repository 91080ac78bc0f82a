# Sourced first by the scripts of this directory and of tests/layout: a scratch directory, the programs, and file systems
# in $dir that are mounted at $mnt.
#
# A script runs beside others, also beside itself: all that it makes is below $top; what it mounts nobody else sees. It
# empties the page cache of its own files only.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tools.sh"
namespace_of_its_own "$@"
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
# QUINTET, PAGE_CHECKS, MIGRATIONS_PROGRAM, POWER_CUTS, LAYOUT, FUSE_SERVER: the program, and the examples page_checks,
# migrations, power_cuts (linux_host), layout (disk_layout) and fuse_memory (fuse). Default: the release builds.
built=$(realpath -m "${CARGO_TARGET_DIR:-$here/../../target}/release")
export QUINTET=${QUINTET:-$built/quintet} PAGE_CHECKS=${PAGE_CHECKS:-$built/examples/page_checks}
export MIGRATIONS_PROGRAM=${MIGRATIONS_PROGRAM:-$built/examples/migrations} POWER_CUTS=${POWER_CUTS:-$built/examples/power_cuts}
export LAYOUT=${LAYOUT:-$built/examples/layout} FUSE_SERVER=${FUSE_SERVER:-$built/examples/fuse_memory}
for program in QUINTET PAGE_CHECKS MIGRATIONS_PROGRAM POWER_CUTS LAYOUT FUSE_SERVER; do
    declare "$program=$(realpath -m "${!program}")"
done
quintet=$QUINTET
top=$(mktemp -d "${TMPDIR:-/tmp}/quintet-host.XXXXXX") || exit 1
dir=$top
mnt=$dir/mnt
failed=0
skip() { echo "SKIPPED: $*"; }
wrong() { echo "FAILED: $*"; failed=1; }

# What a script itself has to end, in its own order.
clean_up() { :; }
finish() {
    local status=$? job mounted
    clean_up
    { for job in $(jobs -p); do kill -9 "$job"; done; wait; } 2>/dev/null
    # The last one first.
    awk '{ print $5 }' /proc/self/mountinfo | grep "^$top\(/\|\$\)" | tac | while read -r mounted; do umount -l "$mounted"; done
    rm -rf --one-file-system "$top"
    return $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
cd "$top" || exit 1

# in_memory: what is made in $dir from here on lies in memory, where root may do that.
in_memory() {
    mount -t tmpfs -o mode=700 quintet-host "$dir" 2>/dev/null || true
    mkdir -p "$mnt"
}
# on_a_disk: $dir lies on a file system that reads from a device, also where scratch directories are in memory.
# on_a_disk_of_its_own: and nobody else uses that file system, where root may make one.
on_a_disk() {
    case $(stat -f -c %T "$dir") in tmpfs | ramfs) on_a_disk_of_its_own ;; esac
}
on_a_disk_of_its_own() {
    chmod 711 "$top"
    mkdir "$top/disk"
    command -v mkfs.ext4 >/dev/null && make ext4 "$top/disk.img" 3G && mount -o loop,noatime "$top/disk.img" "$top/disk" 2>/dev/null && dir=$top/disk
}
# uncached FILE...: of these files nothing is in memory.
uncached() {
    local file
    for file; do
        # What is dirty cannot be dropped.
        sync "$file"
        dd if="$file" iflag=nocache count=0 status=none
    done
}
# wait_until COMMAND...: up to a minute: nobody else's business makes this machine slower than that. False then, and said.
wait_until() {
    local deadline=$((EPOCHSECONDS + 60))
    until "$@" 2>/dev/null; do
        [ $EPOCHSECONDS -lt $deadline ] || { wrong "waited a minute in vain for: $*"; return 1; }
        sleep 0.05
    done
}

# make FS IMAGE SIZE: a file system in a file.
make() {
    rm -f "$2"
    truncate -s "$3" "$2"
    case $1 in
    ext4) mkfs.ext4 -q -F "$2" ;;
    *) "mkfs.$1" -q -f "$2" ;;
    esac >/dev/null 2>&1
}

# fresh FS [SIZE] [OPTIONS]: an empty one at $mnt. Says what cannot be done here.
fresh() {
    command -v "mkfs.$1" >/dev/null || { skip "$1: no mkfs.$1"; return 1; }
    make "$1" "$dir/image" "${2:-400M}" || { skip "$1: mkfs.$1 failed"; return 1; }
    mount -o "loop,noatime${3:+,$3}" "$dir/image" "$mnt" 2>/dev/null || { skip "$1: cannot mount it here"; return 1; }
}
