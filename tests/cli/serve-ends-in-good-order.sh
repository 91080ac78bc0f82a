#!/usr/bin/env bash
# A service's life: READY and STOPPING reach the service manager, its watchdog is fed; SIGTERM while
# commands and requests are under way ends with 0, and commands with 130.
. "$(dirname "$0")/common.sh"
requires python3 qemu-img qemu-io
new_pool
noise "$dir/image" 8
exits 0 q import "$dir/image" disk
python3 - "$dir/notify" >"$dir/notified" <<'P' &
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
s.settimeout(60)
while True:
    said = s.recv(4096).decode()
    print(said, flush=True)
    if "EXTEND_TIMEOUT_USEC" in said:
        break
P
manager=$!
wait_until test -S "$dir/notify"
export NOTIFY_SOCKET=$dir/notify WATCHDOG_USEC=100000
start_server --nbd-socket "$dir/nbd"
unset NOTIFY_SOCKET WATCHDOG_USEC
told() { grep -q "$1" "$dir/notified"; }
wait_until told READY=1
wait_until told WATCHDOG=1
qemu-img compare -f raw -F raw "$dir/image" "nbd+unix:///disk?socket=$dir/nbd" >/dev/null || fail "another image"
# What is stored later can be used at once.
exits 0 q import "$dir/image" later
qemu-img compare -f raw -F raw "$dir/image" "nbd+unix:///later?socket=$dir/nbd" >/dev/null || fail "another image"
mkfifo "$dir/pipe"
"$QUINTET" backup --stdin <"$dir/pipe" >"$dir/log" 2>&1 &
client=$!
exec 7>"$dir/pipe"
head -c 3000000 /dev/urandom >&7
loads=()
for number in 1 2 3; do
    # Each ends with its first failure: when the server does.
    background "load$number" bash -c "while qemu-img convert -f raw -O raw 'nbd+unix:///disk?socket=$dir/nbd' $dir/copy$number; do :; done"
    loads+=($!)
done
wait_until test -s "$dir/copy3"
# Written, and never flushed: the server says that it was acknowledged, and keeps it.
exits 0 q volume create web --size 64M
qemu-io -f raw -t unsafe "nbd+unix:///web?socket=$dir/nbd" -c 'write -P 7 0 20M' >"$dir/io" || fail "$(cat "$dir/io")"
stop_server
code=0
wait $client || code=$?
[ $code -eq 130 ] || fail "the command exited with $code: $(cat "$dir/log")"
wait "${loads[@]}"
# More time was asked for, for the last checkpoint.
wait $manager && told STOPPING=1 || fail "not told: $(cat "$dir/notified")"
[ ! -e "$dir/nbd" ] || fail "the NBD socket is left"
exec 7>&-
exits 0 q tag --add after latest
# Nothing is left to replay.
start_server --nbd-socket "$dir/nbd"
exits 0 q status --json
grep -q '"journal_used_bytes":0,' "$dir/out" || fail "the last checkpoint left something: $(cat "$dir/out")"
qemu-io -r -f raw "nbd+unix:///web?socket=$dir/nbd" -c 'read -P 7 0 20M' -c 'read -P 0 20M 44M' >"$dir/io"
! grep -qi 'fail\|error' "$dir/io" || fail "$(cat "$dir/io")"
# A closed terminal ends it as SIGTERM does, unless it was started to ignore that.
kill -HUP "$server"
code=0
wait "$server" || code=$?
server=
[ $code -eq 0 ] || fail "SIGHUP: the server exited with $code: $(cat "$dir/serve")"
[ ! -e "$pool/control" ] && [ ! -e "$dir/nbd" ] || fail "SIGHUP: a socket is left"
# Else the words of the server before could be taken for its own, before it ignores the signal.
: >"$dir/serve"
nohup "$QUINTET" serve --nbd-socket "$dir/nbd" >"$dir/serve" 2>&1 &
server=$!
wait_until is_serving
kill -HUP "$server"
exits 0 q status
grep -q '^serving' "$dir/serve" && kill -0 "$server" || fail "nohup does not help: $(cat "$dir/serve")"
stop_server
# A start that fails half-way leaves no socket.
exits 1 timeout --foreground 60 "$QUINTET" serve --nbd-socket "$dir/nbd" --mount "$dir/nowhere"
[ ! -e "$pool/control" ] && [ ! -e "$dir/nbd" ] || fail "a failed start has left a socket"
exits 1 timeout --foreground 60 "$QUINTET" serve --nbd-socket "$dir/$(printf 'x%.0s' {1..108})"
says "and that of a socket at most 107"
[ ! -e "$pool/control" ] || fail "a failed start has left a socket"
sound
