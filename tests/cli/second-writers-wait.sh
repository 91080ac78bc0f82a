#!/usr/bin/env bash
# A second writer waits for the first, says for whom, and then does its work; Ctrl-C and a limit end its wait. Without
# a server and in one. Sealed: who has waited is not asked for the password again.
. "$(dirname "$0")/common.sh"
sealed
mkdir "$dir/src" && echo x >"$dir/src/x"
new_pool
exits 0 q backup "$dir/src"
mkfifo "$dir/pipe"
printf '#!/bin/sh\necho asked >>"%s"\necho "correct horse"\n' "$dir/asked" >"$dir/password"
chmod +x "$dir/password"
# begin: a backup that writes until `end`, as $writer. Who else has the pipe open would keep it alive.
begin() {
    "$QUINTET" --password-command 'echo correct horse' backup --stdin <"$dir/pipe" >"$dir/log" 2>&1 &
    writer=$!
    exec 7>"$dir/pipe"
    echo first >&7
    wait_until is_writing
}
# Asking for the lock would take it, if it is free. The index is opened after the lock was taken, and stays open. In a
# server, asking disturbs nobody.
is_writing() {
    if [ -n "$server" ]; then
        ! "$QUINTET" --wait 0 tag --add asked latest >"$dir/asking" 2>&1
    else
        readlink "/proc/$writer/fd/"* | matches '/cache/fpi$'
    fi
}
end() {
    exec 7>&-
    wait "$writer" || fail "the first writer failed: $(cat "$dir/log")"
}
said() { grep -q "$1" "$dir/$2"; }
# named FILE: it names the first writer, without secrets.
named() {
    grep -q "\`quintet --password-command ... backup --stdin\` (process $writer)" "$dir/$1" ||
        fail "the writer is not named: $(cat "$dir/$1")"
    ! grep -q horse "$dir/$1" || fail "a secret: $(cat "$dir/$1")"
}

behave() {
    begin
    exits 11 q --wait 0 tag --add t latest
    named err
    says 'cannot open the pool .*--wait TIME waits'
    ! said 'waits for .quintet' err || fail "no wait was announced: $(cat "$dir/err")"
    exits 11 q --wait 1s tag --add t latest
    named err
    says 'waits for .*for at most 1 second'
    says '; waited 1 second, --wait TIME waits longer'
    exits 11 q -q --wait 1s tag --add t latest
    ! said 'at most' err || fail "-q: $(cat "$dir/err")"
    exits 11 q --json --wait 1s tag --add t latest
    grep -q '^{"message_type":"status","waiting_for":".*backup --stdin.*","seconds_max":1}$' "$dir/out" ||
        fail "no status: $(cat "$dir/out")"
    # Readers wait for nobody.
    exits 0 q snapshots
    # Ctrl-C ends a wait.
    background stopped "$QUINTET" --wait 1h tag --add t latest 7>&-
    local stopped=$! second code=0
    wait_until said 'for at most 1 hour' stopped
    kill -INT "$stopped"
    wait "$stopped" || code=$?
    [ "$code" -eq 130 ] || fail "who waited exited with $code: $(cat "$dir/stopped")"
    # Its turn comes.
    background second "$QUINTET" tag --add "second$1" latest 7>&-
    second=$!
    wait_until said 'for at most 1 minute' second
    named second
    end
    wait "$second" || fail "who waited failed: $(cat "$dir/second")"
    q snapshots | grep -q "second$1" || fail "no tag"
}

behave 1
# The first is killed: the second goes on, with the password that it was given once.
begin
background second env -u QUINTET_PASSWORD "$QUINTET" --password-command "$dir/password" tag --add third latest 7>&-
second=$!
wait_until said 'for at most 1 minute' second
kill -9 "$writer"
wait "$writer" 2>/dev/null || true
exec 7>&-
wait "$second" || fail "who waited failed: $(cat "$dir/second")"
[ "$(wc -l <"$dir/asked")" -eq 1 ] || fail "asked $(wc -l <"$dir/asked") times for the password"
# Of another program only the name is said.
if command -v flock >/dev/null; then
    mkfifo "$dir/hold"
    flock "$pool/lock" cat "$dir/hold" &
    holder=$!
    has_lock() { grep -q "FLOCK.* $holder .*:$(stat -c %i "$pool/lock") " /proc/locks; }
    wait_until has_lock
    exits 11 q --wait 0 tag --add t latest
    says "it is .flock. (process $holder)"
    : >"$dir/hold"
    wait "$holder"
fi

start_server
behave 2
stop_server
sound
