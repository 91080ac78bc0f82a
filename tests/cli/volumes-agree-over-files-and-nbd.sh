#!/usr/bin/env bash
# A volume is a file of two mounts and an NBD export at once: each sees what the others wrote, at once. A mount
# of a pool that has a server is served by that, and ends with it.
. "$(dirname "$0")/common.sh"
/usr/bin/python3 -c 'import nbd' 2>/dev/null || skip "python3-libnbd is not installed"
[ -e /dev/fuse ] || skip "/dev/fuse is missing"
new_pool
exits 0 q volume create v --size 8M
mkdir "$dir/own" "$mount"
mounted=("$dir/own" "$mount")
"$QUINTET" serve --nbd-socket "$dir/nbd" --mount "$dir/own" >"$dir/serve" 2>&1 &
server=$!
wait_until is_serving
kill -0 "$server" 2>/dev/null || { grep -q 'not permitted' "$dir/serve" && skip "$(cat "$dir/serve")"; fail "$(cat "$dir/serve")"; }
"$QUINTET" mount "$mount" >"$dir/mount.log" 2>&1 &
client=$!
wait_until test -d "$mount/volumes"
cat >"$dir/agree.py" <<'P'
import ctypes, mmap, os, random, sys
one, two = (os.open(path, os.O_RDWR) for path in (own + "/volumes/v", other + "/volumes/v"))
direct = os.open(other + "/volumes/v", os.O_RDWR | os.O_DIRECT)
libc = ctypes.CDLL(None, use_errno=True)
SIZE = 8 << 20
model = bytearray(SIZE)
aligned = mmap.mmap(-1, 1 << 16)
def read_direct(at, n):
    begin, end = at & ~4095, (at + n + 4095) & ~4095
    got = os.preadv(direct, [memoryview(aligned)[:end - begin]], begin)
    assert got == end - begin
    return aligned[at - begin:at - begin + n]
readers = [lambda at, n: bytes(h.pread(n, at)), lambda at, n: os.pread(one, n, at),
           lambda at, n: os.pread(two, n, at), read_direct]
def punch(fd, at, n):
    assert libc.fallocate(fd, 3, ctypes.c_long(at), ctypes.c_long(n)) == 0, os.strerror(ctypes.get_errno())
writers = [lambda at, data: h.pwrite(data, at), lambda at, data: os.pwrite(one, data, at),
           lambda at, data: os.pwrite(two, data, at)]
rng = random.Random(7)
for turn in range(3000):
    at = rng.randrange(SIZE - 50000)
    n = rng.choice([1, 512, 4096, rng.randrange(1, 50000)])
    if rng.random() < 0.1:
        punch(rng.choice([one, two]), at, n)
        model[at:at + n] = bytes(n)
    else:
        data = rng.randbytes(n)
        rng.choice(writers)(at, data)
        model[at:at + n] = data
    at = max(0, at - rng.randrange(5000))
    n = min(n + 5000, SIZE - at)
    for number, read in enumerate(readers):
        assert read(at, n) == model[at:at + n], (turn, number, at, n)
# Shared mappings: what they write is there for all after msync; what others wrote, in the next mapping.
try:
    mapped = mmap.mmap(one, SIZE)
except OSError as e:
    print("no shared mappings with this kernel:", e)
else:
    assert mapped[:] == model
    mapped[12345:12350] = b"mmap!"
    mapped.flush()
    model[12345:12350] = b"mmap!"
    for number, read in enumerate(readers):
        assert read(12300, 100) == model[12300:12400], number
    mapped.close()
    h.pwrite(b"after", 12345)
    model[12345:12350] = b"after"
    mapped = mmap.mmap(one, SIZE)
    assert mapped[:] == model
    mapped.close()
os.fsync(two)
for fd in (one, two, direct):
    os.close(fd)
P
/usr/bin/python3 -m nbd -u "nbd+unix:///v?socket=$dir/nbd" -c "own, other = '$dir/own', '$mount'" -c "$(cat "$dir/agree.py")" >"$dir/agree" 2>&1 ||
    fail "$(tail -n 5 "$dir/agree")"
cat "$dir/agree"
# Who stops the client unmounts, and who stops the server ends the client.
kill -INT $client
wait $client || fail "the client ended with $?: $(cat "$dir/mount.log")"
[ -z "$(ls "$mount")" ] || fail "still mounted"
"$QUINTET" mount "$mount" >"$dir/mount.log" 2>&1 &
client=$!
wait_until test -d "$mount/volumes"
umount "$mount" 2>/dev/null || fusermount3 -u "$mount"
wait $client || fail "the client ended with $? after umount: $(cat "$dir/mount.log")"
"$QUINTET" mount "$mount" >"$dir/mount.log" 2>&1 &
client=$!
wait_until test -d "$mount/volumes"
stop_server
wait $client || fail "the client ended with $? after the server: $(cat "$dir/mount.log")"
for where in "$dir/own" "$mount"; do [ -z "$(ls "$where")" ] || fail "$where is still mounted"; done
sound
