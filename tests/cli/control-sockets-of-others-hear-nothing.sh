#!/usr/bin/env bash
# Another user owns the pool's directory and listens at its control socket: root's commands send
# nothing, neither variables nor descriptors, wait for nobody, and say who is there. Servers of root
# hear what is theirs.
# Sealed: a password is what others must not hear.
. "$(dirname "$0")/common.sh"
sealed
requires_root
requires python3
chmod 711 "$dir"
mkdir "$dir/src" "$dir/heard"
echo x >"$dir/src/file"
new_pool
export QUINTET_SECRET_OF_ROOT=4711 SECRET_OF_ROOT=4712
# listens USER HOW: `accepts`: writes down what it hears; `ignores`: lets nobody in.
listens() {
    rm -f "$pool/control" "$dir/ready" "$dir/heard/"*
    python3 - "$pool/control" "$1" "$2" "$dir/heard" "$dir/ready" >"$dir/listener" 2>&1 <<'PY' &
import os, socket, sys
path, user, how, heard, ready = sys.argv[1:]
os.chown(os.path.dirname(path), int(user), int(user))
os.chown(heard, int(user), int(user))
open(ready + ".tmp", "w").close()
os.setgroups([]); os.setgid(int(user)); os.setuid(int(user))
server = socket.socket(socket.AF_UNIX)
server.bind(path)
os.chmod(path, 0o777)
if how == "ignores":
    server.listen(0)
    waiting = []
    while True:
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        try:
            client.connect(path)
        except BlockingIOError:
            break
        waiting.append(client)
else:
    server.listen(8)
open(heard + "/ready", "w").close()
while how == "ignores":
    import time
    time.sleep(1000)
number = 0
while True:
    client, _ = server.accept()
    number += 1
    open(f"{heard}/came.{number}", "w").close()
    while True:
        data, fds, _, _ = socket.recv_fds(client, 1 << 16, 16)
        if fds:
            open(f"{heard}/descriptors.{number}", "w").write(str(len(fds)))
        if not data:
            break
        open(f"{heard}/bytes.{number}", "ab").write(data)
PY
    server=$!
    wait_until test -e "$dir/heard/ready"
}
silent() { kill -9 "$server" && wait "$server" 2>/dev/null || true; server=; rm -f "$pool/control"; }
commands=("backup $dir/src" "gc" "status" "tag --add x latest" "copy --to $dir/other latest" "volume list" "mount $dir/mnt")
exits 0 q backup "$dir/src"
mkdir "$dir/mnt"
listens 1234 accepts
for command in "${commands[@]}"; do
    exits 1 timeout --foreground -k 5 60 "$QUINTET" $command
    says 'user 1234'
    # Said at the sight of who listens; a wait would end with "does not answer".
    says 'nothing was sent'
done
# Reading takes turns at a server, of which it is told bytes only: not at this one.
exits 0 timeout --foreground -k 5 60 "$QUINTET" snapshots
exits 0 timeout --foreground -k 5 60 "$QUINTET" check
ls "$dir/heard" | grep -q came || fail "nobody came: the test tests nothing"
! ls "$dir/heard" | grep 'bytes\|descriptors' || fail "something was sent: $(head -c 300 "$dir/heard/"bytes*)"
silent
listens 1234 ignores
exits 1 timeout --foreground -k 5 60 "$QUINTET" gc
says 'does not answer'
silent
# What a server of root hears, of the variables, are those that the program reads.
listens 0 accepts
background asks "$QUINTET" gc
asks=$!
hears() { grep -aq QUINTET_SECRET_OF_ROOT "$dir/heard/"bytes*; }
wait_until hears
# It waits for an answer that does not come, and has said all.
kill -9 $asks
wait $asks 2>/dev/null || true
! grep -aq 4712 "$dir/heard/"bytes* || fail "a server hears variables that are nobody's business"
silent
sound
