#!/usr/bin/env bash
# Two volumes are written at random, with several times what their disk holds, and every container keeps a little that is
# needed: the server makes room by itself, writers wait for it, and read back what they wrote.
# seconds: 600
. "$(dirname "$0")/common.sh"
requires python3
mount_tmpfs "$dir/small" 480M
[ -e /dev/fuse ] || skip "/dev/fuse is missing"
pool=$dir/small/pool
export QUINTET_REPOSITORY=$pool
new_pool
exits 0 q volume create a --size 100M
exits 0 q volume create b --size 100M
mkdir "$mount"
mounted+=("$mount")
start_server --mount "$mount" --journal 32M
wait_until test -e "$mount/volumes/a"
cat >"$dir/write.py" <<'PY'
import os
import random
import sys

size = 100 << 20
file = os.open(sys.argv[1], os.O_RDWR)
model = bytearray(size)
written = 0
while written < 500 << 20:
    length = random.choice([4096, 4096, 16384, 65536, 1 << 20])
    offset = random.randrange(0, size - length) // 4096 * 4096
    data = os.urandom(length)
    os.pwrite(file, data, offset)
    model[offset : offset + length] = data
    written += length
    if random.random() < 0.01:
        os.fsync(file)
os.fsync(file)
found = bytearray()
while len(found) < size:
    found += os.pread(file, 1 << 20, len(found))
sys.exit(0 if found == model else "other bytes")
PY
background a python3 "$dir/write.py" "$mount/volumes/a"
first=$!
background b python3 "$dir/write.py" "$mount/volumes/b"
second=$!
wait $first || fail "a: $(cat "$dir/a"; q status)"
wait $second || fail "b: $(cat "$dir/b"; q status)"
exits 0 q status --json
grep -q '"state":"ONLINE"' "$dir/out" || fail "$(cat "$dir/out")"
[ "$(number writers_waited)" -gt 0 ] || fail "nobody waited: $(cat "$dir/out")"
[ "$(number deleted_bytes)" -gt $((500 << 20)) ] || fail "$(cat "$dir/out")"
umount "$mount"
stop_server
sound
