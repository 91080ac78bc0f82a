#!/usr/bin/env bash
# Open files and directories of a server's mount keep their snapshots, though those are forgotten, purged and
# collected meanwhile; what is not open is not kept.
. "$(dirname "$0")/common.sh"
requires python3
new_pool --parity 0
mkdir -p "$dir/src/sub"
noise "$dir/src/sub/file" 4
noise "$dir/src/sub/other" 4
noise "$dir/disk.img" 4
exits 0 q backup "$dir/src"
# Names of snapshots are seconds.
sleep 1.1
exits 0 q import "$dir/disk.img" disk
cp -a "$dir/src" "$dir/kept"
rm -r "$dir/src/sub"
noise "$dir/src/stays" 1
exits 0 q backup --force "$dir/src"
exits 0 q import "$dir/src/stays" disk
show
# Opens what it is given (a file, a directory, the top of a snapshot, an image); reads when it is asked to.
cat >"$dir/reader.py" <<'PYTHON'
import os, sys, time
what, path, ask = sys.argv[1:4]
def wait_for(name):
    while not os.path.exists(ask + name):
        time.sleep(0.05)
opened = os.open(path, os.O_RDONLY)
print("open", flush=True)
wait_for(".read")
with open(ask + ".bytes", "wb") as out:
    if what == "file":
        while part := os.read(opened, 1 << 20):
            out.write(part)
    else:
        below = sys.argv[4]
        assert os.listdir(opened) != []
        os.fstat(opened)
        at = os.open(below, os.O_RDONLY, dir_fd=opened)
        while part := os.read(at, 1 << 20):
            out.write(part)
        os.close(at)
print("read", flush=True)
wait_for(".leave")
PYTHON
reader() {
    local name=$1
    shift
    background "$name" python3 "$dir/reader.py" "$1" "$2" "$dir/ask-$name" "${3:-}"
    pids+=($!)
    wait_until grep -q open "$dir/$name"
}
pids=()
first=$(ls "$mount/snapshots" | head -1)
old=$mount/snapshots/$first
image=$(ls "$mount/images" | grep @ | while read -r name; do
    [ "$(stat -c %s "$mount/images/$name")" -ne $((4 << 20)) ] || echo "$name"
done)
reads() {
    touch "$dir/ask-$1.read"
    has_read() { grep -q "^read\|Error" "$dir/$1"; }
    wait_until has_read "$1"
    ! grep -q Error "$dir/$1" || fail "$(cat "$dir/$1" "$dir/mount.err")"
    cmp "$dir/ask-$1.bytes" "$2" || fail "$1 read something else"
}
leaves() {
    touch "$dir/ask-$1.leave"
    wait "$2" || fail "$1: $(cat "$dir/$1")"
}
forget_old() {
    exits 0 q forget "$(q snapshots --json | grep '"kind":"tree"' | grep -o '"id":"[0-9a-f]*"' | head -1 | cut -d'"' -f4)"
}
holders() { q status --json | grep -o '"kind":"mount","name":"[^"]*","since":"[^"]*","opens":[0-9]*' || true; }
reader file file "$old$dir/src/sub/file"
reader directory directory "$old$dir/src/sub" other
reader top directory "$old" "${dir#/}/src/sub/file"
reader image file "$mount/images/$image"
[ -z "$(holders)" ] || fail "held, and nothing is forgotten: $(holders)"
forget_old
exits 0 q forget "$(q snapshots --json | grep '"kind":"image"' | grep -o '"id":"[0-9a-f]*"' | head -1 | cut -d'"' -f4)"
for round in 1 2 3; do
    exits 0 q gc --trash-period 0 --json
    [ "$(number held_snapshots)" -eq 2 ] || fail "$(cat "$dir/out")"
done
[ "$(stored_bytes)" -gt 12000000 ] || fail "gc deleted what is open: $(stored_bytes) bytes are left"
holders | matches "\"name\":\"$mount\".*\"opens\":3" || fail "$(holders)"
exits 0 q status
says "open files and directories of the mount $mount (3)"
# Nothing of it was read before: neither the kernel nor the server has it.
[ ! -e "$old" ] || fail "a forgotten snapshot has a name"
reads file "$dir/kept/sub/file"
reads image "$dir/disk.img"
leaves file "${pids[0]}"
exits 0 q gc --trash-period 0
reads directory "$dir/kept/sub/other"
leaves directory "${pids[1]}"
exits 0 q gc --trash-period 0
reads top "$dir/kept/sub/file"
sound
leaves top "${pids[2]}"
leaves image "${pids[3]}"
nobody() { [ -z "$(holders)" ]; }
wait_until nobody
exits 0 q gc --trash-period 0 --json
[ "$(number held_snapshots)" -eq 0 ] || fail "$(cat "$dir/out")"
[ "$(stored_bytes)" -lt 4000000 ] || fail "$(stored_bytes) bytes stay and nobody has them open"
unshow
sound
