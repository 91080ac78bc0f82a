#!/usr/bin/env bash
# --limit: what is read, stored or sent takes at least the time that the rate demands, in the process and in a server.
# Ctrl-C does not wait for it, and 0 is no limit.
# seconds: 300
. "$(dirname "$0")/common.sh"
other_pool
# at_least MS COMMAND...: it succeeds, and takes that long.
at_least() {
    local ms=$1 began took
    shift
    began=$(date +%s%N)
    exits 0 "$@"
    took=$((($(date +%s%N) - began) / 1000000))
    [ "$took" -ge "$ms" ] || fail "$* took $took ms; its limit demands $ms"
}
mkdir "$dir/src"
# A file that is read in pieces, and many that are read at once.
noise "$dir/src/large" 5
for n in $(seq 16); do head -c 65536 /dev/urandom >"$dir/src/$n"; done
noise "$dir/image" 6
noise "$dir/stream" 6
new_pool
new_other_pool
at_least 2000 q backup --limit 3M "$dir/src"
# Nothing is read, so nothing waits.
exits 0 q backup --limit 1 "$dir/src"
at_least 2000 q backup --limit 3M --stdin-filename s --stdin-from-command -- cat "$dir/stream"
at_least 2000 q import --limit 3M "$dir/image" disk
at_least 2000 q restore --limit 3M latest:"$dir/src" --target "$dir/back"
same "$dir/src" "$dir/back"
at_least 2000 q export --limit 3M disk@latest "$dir/exported"
cmp "$dir/image" "$dir/exported"
at_least 2000 sh -c '"$QUINTET" export --limit 3M disk@latest - >"$0"' "$dir/exported"
# 17 MiB, three snapshots: each waits before its commit.
at_least 5000 q copy --all --limit 3M
says '4 snapshots copied'
exits 0 q copy --all --limit 0
says '0 snapshots copied'

# Through a server.
exits 0 q volume clone disk@latest machine
start_server
noise "$dir/src/large" 5
noise "$dir/image" 6
at_least 1600 q backup --limit 3M "$dir/src"
at_least 2000 q import --limit 3M "$dir/image" disk
at_least 2000 q export --limit 3M machine "$dir/machine"
at_least 2000 q restore --limit 3M --overwrite always latest:"$dir/src" --target "$dir/back2"
at_least 3600 q copy --all --limit 3M
stop_server

# What is stored counts too: it is more than what is read, if nothing compresses. Ctrl-C ends the wait.
noise "$dir/src/large" 5
for line in "backup $dir/src" "import $dir/image again" "restore latest:$dir/src --target $dir/back3" "export disk $dir/no" \
    "copy --all"; do
    [ "$line" != "copy --all" ] || exits 0 q backup "$dir/src"
    # shellcheck disable=SC2086
    "$QUINTET" $line --limit 1 >"$dir/out" 2>&1 </dev/null &
    command=$!
    wait_until catches_interrupts $command
    sleep 0.5
    kill -INT $command
    wait_until has_ended $command
    code=0
    wait $command || code=$?
    [ $code -eq 130 ] || fail "$line ended with $code: $(cat "$dir/out")"
done
sound
