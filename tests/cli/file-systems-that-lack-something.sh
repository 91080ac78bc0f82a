#!/usr/bin/env bash
# A pool on a share that lacks one thing, or all of them: syncs of directories, free space in statfs, locks, sockets, hard
# links, renaming without replacing, allocation, direct I/O, modes.
. "$(dirname "$0")/common.sh"
[ "$(id -u)" = 0 ] || skip "not root: cannot mount"
requires gcc pkg-config fusermount3
pkg-config --exists fuse3 || skip "libfuse3-dev is not installed"
# shellcheck disable=SC2046
gcc -O1 -w -o "$dir/nas" "$here/nas/nas.c" $(pkg-config --cflags --libs fuse3)
mkdir src && echo x >src/f && ln src/f src/same
everything=fsyncdir,statfs,flock,sock,link,renflag,falloc,odirect,chmod
export QUINTET_CONTROL_DIRECTORY=$dir/sockets
has_lock() { readlink "/proc/$writer/fd/"* | matches '/cache/fpi$'; }
for lacks in ${everything//,/ } "$everything"; do
    mkdir "real-$lacks" "nas-$lacks"
    NAS=$lacks "$dir/nas" "$dir/real-$lacks" "$dir/nas-$lacks" || skip "FUSE cannot mount here"
    mounted+=("$dir/nas-$lacks")
    export QUINTET_REPOSITORY=$dir/nas-$lacks/pool
    pool=$QUINTET_REPOSITORY
    new_pool
    exits 0 q backup "$dir/src"
    exits 0 q volume create v --size 1M
    start_server --nbd-socket "$dir/nbd"
    # The command finds the server, wherever its socket is: it could not write otherwise.
    exits 0 q backup "$dir/src"
    kill -9 "$server" && wait "$server" 2>/dev/null || true
    server=
    # What a killed server leaves holds nobody.
    exits 0 q backup "$dir/src"
    exits 0 q gc
    # One writer at a time.
    mkfifo "pipe-$lacks"
    "$QUINTET" backup --stdin <"pipe-$lacks" >log 2>&1 &
    writer=$!
    exec 7>"pipe-$lacks"
    echo first >&7
    wait_until has_lock
    exits 11 q --wait 0 backup "$dir/src"
    kill -9 "$writer" && wait "$writer" 2>/dev/null || true
    exec 7>&-
    exits 0 q backup "$dir/src"
    exits 0 q check --read-data
    exits 0 q restore "latest:$dir/src" --target "back-$lacks"
    same src "back-$lacks"
    umount -l "$dir/nas-$lacks"
done
