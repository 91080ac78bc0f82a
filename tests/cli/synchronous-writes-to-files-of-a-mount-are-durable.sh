#!/usr/bin/env bash
# A write to a volume's file that asks to be durable when it returns (O_DSYNC, O_SYNC, RWF_DSYNC) is there after the server
# was killed, without an fsync.
. "$(dirname "$0")/common.sh"
requires python3
[ -e /dev/fuse ] || skip "/dev/fuse is missing"
export QUINTET_MEMORY=128M
new_pool
exits 0 q volume create v --size 8M
show
python3 - "$mount/volumes/v" <<'P' || fail "cannot write"
import os, sys
files = [os.open(sys.argv[1], os.O_RDWR | flag) for flag in (os.O_DSYNC, os.O_SYNC, 0)]
for at, file in enumerate(files):
    os.pwrite(file, b"o" * 4096, at << 20)
os.fsync(files[2])
for at, file in enumerate(files):
    os.pwritev(file, [b"n" * 4096], at << 20, os.RWF_DSYNC if at == 2 else 0)
P
kill_server
wait_until eval '! grep -q " $mount fuse" /proc/mounts'
show
lost=
for at in 0 1 2; do
    found=$(dd if="$mount/volumes/v" bs=4096 skip=$((at * 256)) count=1 status=none | head -c 1)
    [ "$found" = n ] || lost+=" $at"
done
[ -z "$lost" ] || fail "synchronous writes are gone:$lost (0: O_DSYNC, 1: O_SYNC, 2: RWF_DSYNC)"
unshow
sound
