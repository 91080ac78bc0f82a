#!/usr/bin/env bash
# Lists, patterns, policies and passwords are read from pipes too, named or not, by the process that has them; waiting for
# one ends on a stop, or with its client, and leaves the server free.
. "$(dirname "$0")/common.sh"
new_pool
mkdir "$dir/src"
echo x >"$dir/src/wanted" && echo x >"$dir/src/other"
mkfifo "$dir/pipe"

# Without a server.
exits 0 q backup --files-from <(echo "$dir/src") --exclude-file <(echo other)
exits 0 q ls -R latest
matches wanted <"$dir/out" || fail "not stored: $(cat "$dir/out")"
! matches other <"$dir/out" || fail "not excluded: $(cat "$dir/out")"
(echo "$dir/src" >"$dir/pipe") &
exits 0 q backup --files-from "$dir/pipe"

# is_waiting PID: it has the pipe open, and so reads it.
is_waiting() {
    local fd
    for fd in /proc/"$1"/fd/*; do [ "$(readlink "$fd")" != "$dir/pipe" ] || return 0; done
    has_ended "$1"
}
# interrupted COMMAND...: it reads the pipe, and ends on Ctrl-C.
interrupted() {
    local status=0
    "$QUINTET" "$@" >"$dir/said" 2>&1 &
    client=$!
    wait_until is_waiting $client
    kill -INT $client
    wait $client || status=$?
    [ $status -eq 130 ] || fail "$*: exit code $status after Ctrl-C: $(cat "$dir/said")"
}
interrupted backup --files-from "$dir/pipe"
interrupted restore latest --target "$dir/back" --exclude-file "$dir/pipe"
interrupted policy show "$dir/pipe"
(unset QUINTET_REPOSITORY && interrupted --repository-file "$dir/pipe" snapshots)

# In a server: the client's standard input is read, and descriptors that only the client has are refused.
cp "$here/../../policies/database.csv" "$dir/policy.csv"
start_server
q policy set /dev/stdin <"$dir/policy.csv" >"$dir/out" 2>&1 || fail "standard input: $(cat "$dir/out")"
(cat "$dir/policy.csv" >"$dir/pipe") &
exits 0 q policy set "$dir/pipe"
exits 1 q policy set <(cat "$dir/policy.csv")
says 'only your own process has it open'
clients=()
for _ in 1 2 3 4 5; do
    "$QUINTET" policy set "$dir/pipe" >/dev/null 2>&1 &
    clients+=($!)
done
server_reads() {
    local fd count=0
    for fd in /proc/"$server"/fd/*; do [ "$(readlink "$fd")" != "$dir/pipe" ] || count=$((count + 1)); done
    [ $count -eq "$1" ]
}
wait_until server_reads 5
exits 0 q status
kill -9 "${clients[@]}"
wait_until server_reads 0
exits 0 q backup "$dir/src"
stop_server
