#!/usr/bin/env bash
# What takes data away from under clients is refused while there are some, or disconnects them when asked
# to; growing and freezing disturb nobody.
. "$(dirname "$0")/common.sh"
requires nbdinfo python3
for python in python3 /usr/bin/python3; do
    if "$python" -c 'import nbd' 2>/dev/null; then break; fi
done
"$python" -c 'import nbd' 2>/dev/null || skip "Python's nbd module is not installed"
new_pool
exits 0 q volume create web --size 1M
start_server --nbd-socket "$dir/nbd"
mkfifo "$dir/next"
cat >"$dir/client.py" <<'P'
import nbd, sys
h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.pwrite(b"x" * 512, 0)
print("connected", flush=True)
for line in sys.stdin:
    try:
        h.pwrite(line.encode()[:1] * 512, 512)
        print("wrote", flush=True)
    except nbd.Error as e:
        print("gone", e, flush=True)
        break
P
client() {
    # What the one before has said is not this one's.
    : >"$dir/client"
    "$python" "$dir/client.py" "nbd+unix:///web?socket=$dir/nbd" <"$dir/next" >"$dir/client" 2>&1 &
    exec 6>"$dir/next"
    wait_until grep -q connected "$dir/client"
}
used() {
    exits 0 q volume list --json
    grep -q '"clients":1' "$dir/out"
}
client
used || fail "nobody is listed as a client: $(cat "$dir/out")"
exits 0 q volume snapshot web@a
for command in 'rollback web@a' 'resize web 512K --shrink' 'delete web'; do
    # shellcheck disable=SC2086
    exits 1 q volume $command
    says 'web is in use by'
    # shellcheck disable=SC2086
    exits 0 q volume $command --dry-run
    says 'in use by 1 connection'
done
exits 0 q volume resize web 2M
says 'when they connect again'
echo >&6
wait_until grep -q wrote "$dir/client"
[ "$(nbdinfo --size "nbd+unix:///web?socket=$dir/nbd")" = 2097152 ] || fail "new clients do not see the new size"
exits 0 q volume rollback web@a --force
says 'disconnected 1 client'
echo >&6
wait_until grep -q gone "$dir/client"
exec 6>&-
unused() { ! used; }
wait_until unused
client
exits 0 q volume delete web --force
echo >&6
wait_until grep -q gone "$dir/client"
exec 6>&-
nbdinfo "nbd+unix:///web?socket=$dir/nbd" >/dev/null 2>&1 && fail "a deleted volume can be opened"
stop_server
sound
