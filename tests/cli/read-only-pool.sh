#!/usr/bin/env bash
# A pool on a read-only file system, or of a user who may only read it: reading works, also after a server has written
# to volumes; writing is a clear error.
. "$(dirname "$0")/common.sh"
mount_tmpfs "$dir/disk" 64m
export QUINTET_REPOSITORY=$dir/disk/pool
pool=$QUINTET_REPOSITORY
mkdir "$dir/src" && echo x >"$dir/src/x"
new_pool
exits 0 q backup "$dir/src"
noise "$dir/disk.img" 1
exits 0 q import "$dir/disk.img" image
exits 0 q volume create v --size 2M
if command -v qemu-io >/dev/null; then
    start_server --nbd-socket "$dir/nbd" --journal 2M
    qemu-io -f raw -c 'write -P 7 0 64k' -c flush "nbd+unix:///v?socket=$dir/nbd" >/dev/null || fail "no write"
    # Killed, so that the write is in the journal only.
    kill_server
fi
mount -o remount,ro "$dir/disk"
reads() {
    exits 0 "$@" snapshots
    # Nothing can be stored if the disk is mounted read-only, which may be the answer to an error.
    exits "$state" "$@" status
    exits 0 "$@" stats
    exits 0 "$@" volume list
    exits 0 "$@" ls latest

    exits 0 "$@" dump "latest:$dir/src/x"
    exits 0 "$@" check --read-data
}
state=3 reads q
exits 3 q status
says 'mounted read-only: nothing can be stored'
exits 0 q restore "latest:$dir/src" --target "$dir/back"
same "$dir/src" "$dir/back"
exits 0 q export image "$dir/image.raw"
cmp "$dir/disk.img" "$dir/image.raw"
exits 1 q backup "$dir/src"
says "read-only"
exits 1 q -r "$dir/disk/other" init
mount -o remount,rw "$dir/disk"
exits 0 q backup "$dir/src"

# A user who may only read.
chmod -R go+rX "$dir/disk" && chmod 755 "$dir"
install -m 755 "$QUINTET" "$dir/program"
as_reader() {
    setpriv --reuid 65534 --regid 65534 --clear-groups env QUINTET_CACHE_DIR="$dir/none" HOME=/nonexistent "$dir/program" "$@"
}
state=0 reads as_reader
