#!/usr/bin/env bash
# A program that copies an image over several connections sees one state of it, although a backup of the same name ends
# while it connects. The next program sees the new state.
. "$(dirname "$0")/common.sh"
requires python3
for python in python3 /usr/bin/python3; do
    if "$python" -c 'import nbd' 2>/dev/null; then break; fi
done
"$python" -c 'import nbd' 2>/dev/null || skip "Python's nbd module is not installed"
new_pool
noise "$dir/old.img" 4
noise "$dir/new.img" 4
exits 0 q import "$dir/old.img" disk
start_server --nbd-socket "$dir/nbd"
cat >"$dir/copy.py" <<'P'
import nbd, subprocess, sys
uri, program, new = sys.argv[1:]
def connect():
    handle = nbd.NBD()
    handle.connect_uri(uri)
    return handle
def digest(handle):
    return bytes(handle.pread(4194304, 0))
first = connect()
old = digest(first)
subprocess.run([program, "import", new, "disk"], check=True, stdout=subprocess.DEVNULL)
second = connect()
assert digest(second) == old, "two states in one copy"
first.shutdown(), second.shutdown()
P
"$python" "$dir/copy.py" "nbd+unix:///disk?socket=$dir/nbd" "$QUINTET" "$dir/new.img" || fail "connections disagree"
# The server may not have noticed yet that the first connection has ended.
is_new() {
    "$python" -c 'import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
sys.exit(bytes(h.pread(4194304, 0)) != open(sys.argv[2], "rb").read())' "nbd+unix:///disk?socket=$dir/nbd" "$dir/new.img"
}
wait_until is_new
stop_server
sound
