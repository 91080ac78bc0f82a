# Sourced by the behaviour scripts: a scratch directory, a mounted volume, and what they need.
# The server is $QUINTET_FUSE_SERVER, a command that shows a volume of SIZE bytes as MOUNTPOINT/disk. It is called as
#   $QUINTET_FUSE_SERVER [--read-only] --size SIZE MOUNTPOINT
# says "ready", or "ready PATH" when the file is MOUNTPOINT/PATH, and runs until it is unmounted.
#
# A script runs beside others, also beside itself: all that it makes is below $dir, where it also runs. What it mounts
# nobody else sees.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tools.sh"
. "$here/../scratch.sh"
namespace_of_its_own "$@"
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
dir=$(scratch fuse)
mount=$dir/mount
disk=
server=
loop=
finish() {
    local status=$?
    umount -l "$dir/inner" 2>/dev/null || true
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    umount -l "$mount" 2>/dev/null || fusermount3 -u -z "$mount" 2>/dev/null || true
    rm -rf "$dir"
    return $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
cd "$dir"
[ -e /dev/fuse ] || { echo "/dev/fuse is missing"; exit 77; }

skip() {
    echo "$*"
    exit 77
}

fail() {
    echo "$*"
    exit 1
}

# Skips the script, aloud, unless the tools are there.
requires() {
    local tool
    for tool; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
}

requires_root() {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
}

requires_loop() {
    requires_root
    requires losetup mount
    losetup -f >/dev/null 2>&1 || skip "there are no loop devices here"
}

# A size that is not a whole number of blocks, nor of sectors if the server can show that.
odd_size=1000001
[ -z "${QUINTET_FUSE_SECTORS:-}" ] || odd_size=$((1954 * 512))

# Shows a volume of SIZE bytes as $disk: show SIZE [OPTION...]
show() {
    local size=$1
    shift
    # Emptied here: the one before said that it was ready, too.
    : >"$dir/server.log"
    mkdir -p "$mount"
    $QUINTET_FUSE_SERVER "$@" --size "$size" "$mount" >"$dir/server.log" 2>&1 &
    server=$!
    local deadline=$((EPOCHSECONDS + 60))
    until grep -q ready "$dir/server.log"; do
        kill -0 $server 2>/dev/null || fail "the server did not start: $(cat "$dir/server.log")"
        [ $EPOCHSECONDS -lt $deadline ] || fail "the server did not start within a minute: $(cat "$dir/server.log")"
        sleep 0.05
    done
    disk=$(sed -n 's/^ready *//p' "$dir/server.log")
    disk=$mount/${disk:-disk}
}

# Unmounts; the server must end by itself, in good order.
unshow() {
    umount "$mount" 2>/dev/null || fusermount3 -u "$mount" || fail "cannot unmount"
    local code=0
    wait "$server" || code=$?
    server=
    [ $code -eq 0 ] || fail "the server ended with $code: $(cat "$dir/server.log")"
}

# attach [losetup option...]: $loop is a block device over $disk, until detach or the end of the script, however it ends:
# it is given up at once, and this shell has it open.
attach() {
    loop=$(losetup -f --show "$@" "$disk") || fail "losetup"
    exec {open_loop}<"$loop"
    losetup -d "$loop" || fail "losetup -d"
}

detach() {
    exec {open_loop}<&-
    loop=
}
