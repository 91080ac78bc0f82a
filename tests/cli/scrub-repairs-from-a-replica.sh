#!/usr/bin/env bash
# Containers rot or vanish: scrub and repair read what is lost from a pool that copy filled, with other keys or with the same,
# here and in a server; what it does not have stays lost and is named.
# Sealed: replicas with other keys and with the same are its subject.
# seconds: 600
. "$(dirname "$0")/common.sh"
sealed
other_pool
export QUINTET_REPLICA_PASSWORD=$QUINTET_TO_PASSWORD
# Three bytes in the middle of every container of at least so many bytes change, but for the newest, which holds the
# catalog: rot SIZE
rot() {
    local container at
    find "$pool/containers" -type f | sort | head -n -1 | xargs stat -c '%s %n' | awk -v min="$1" '$1 >= min { print $2 }' >"$dir/containers"
    while read -r container; do
        at=$(($(stat -c %s "$container") / 2))
        printf '\377\376\375' | dd of="$container" bs=1 seek=$at conv=notrunc status=none
    done <"$dir/containers"
}
# The pool as it was before any damage.
whole_again() {
    rm -rf "$pool" && cp -r "$dir/sound-pool" "$pool"
}
# All that was stored is what it was.
all_is_there() {
    sound
    rm -rf "$dir/back" "$dir/exported"
    exits 0 q restore "$tree:$dir/src" --target "$dir/back"
    same "$dir/src" "$dir/back"
    exits 0 q export -f raw disk "$dir/exported"
    cmp "$dir/image" "$dir/exported"
}

real_tree "$dir/src/real" 8
noise "$dir/src/large" 12
noise "$dir/image" 20
truncate -s 64M "$dir/image"
new_pool --parity 0
new_other_pool
exits 0 q backup "$dir/src"
tree=$(q snapshots --json | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p')
exits 0 q import "$dir/image" disk
exits 0 q copy --all
cp -r "$pool" "$dir/sound-pool"

# What cannot be a replica is told before anything is read.
exits 1 q scrub --replica "$pool"
says 'is the pool itself'
exits 10 q scrub --replica "$dir/nothing"
QUINTET_REPLICA_PASSWORD=wrong exits 12 q scrub --replica "$other"
says 'the replica'
QUINTET_REPLICA_PASSWORD='' exits 12 q repair --replica "$other" --replica-password-command 'echo wrong'
exits 0 q scrub --replica "$other"
says 'no damage'

# Data, recipes and directories rot.
rot 1000
exits 20 q scrub --replica "$other" --json
[ "$(number chunks)" -gt 0 ] && [ "$(number missing)$(number refused)" = 00 ] || fail "$(cat "$dir/out")"
exits 0 q scrub --replica "$other"
all_is_there

# Known since earlier.
whole_again
rot 1000000
exits 21 q scrub
says 'STILL DAMAGED'
exits 20 q repair --replica "$other"
says 'stored again from'
says 'every snapshot is complete'
all_is_there

# Every container of data is gone.
whole_again
find "$pool/containers" -type f -size +1M -delete
exits 20 q scrub --replica "$other"
exits 0 q status
all_is_there
# The same with repair: status is clean right after it.
whole_again
find "$pool/containers" -type f -size +1M -delete
exits 21 q scrub
exits 21 q status
exits 20 q repair --replica "$other"
exits 0 q status
all_is_there

# With the same keys: a copy of the files.
whole_again
rot 1000000
exits 20 q repair --replica "$dir/sound-pool" --replica-password-command "echo $QUINTET_PASSWORD"
all_is_there

# What the replica does not have stays lost, and is named; of a damaged one the rest is taken.
whole_again
noise "$dir/src2" 6
exits 0 q import "$dir/src2" later
cp -r "$pool" "$dir/newer-pool"
rot 1000000
exits 21 q scrub --replica "$other"
says 'stored again from'
says 'affected:.*later'
! grep -q 'affected:.*disk' "$dir/out" || fail "$(cat "$dir/out")"
exits 0 q import "$dir/src2" later
all_is_there
whole_again
cp -r "$other" "$dir/damaged"
find "$dir/damaged/containers" -type f -size +1M | xargs truncate -s 500K
rot 1000000
exits 21 q scrub --replica "$dir/damaged"
says 'does not have either'
exits 20 q repair --replica "$other"
all_is_there
exits 0 q init -r "$dir/empty"
exits 0 q scrub --replica "$dir/empty" --replica-password-command "echo $QUINTET_PASSWORD"

# A server does it when the pass ends.
whole_again
rot 1000000
start_server
exits 12 q scrub start --replica "$other" --replica-password-command 'echo wrong'
exits 0 q scrub start --replica "$other"
is_at_rest() {
    q scrub status | matches 'at rest'
}
is_repaired() {
    grep -q 'stored again from' "$dir/serve"
}
wait_until is_at_rest
wait_until is_repaired
! grep -q 'damage reaches' "$dir/serve" || fail "$(cat "$dir/serve")"
stop_server

# One that was given a replica at its start does it when it scrubs by itself, and serves when it has none.
whole_again
rot 1000000
start_server --replica "$other" --qos scrub-within=1s
q status >"$dir/out" 2>&1 || [ $? -eq 21 ] || fail "$(cat "$dir/out")"
says "they repair from $other"
wait_until is_repaired
exits 0 q qos set scrub=off
wait_until is_at_rest
! grep -q 'damage reaches' "$dir/serve" || fail "$(cat "$dir/serve")"
stop_server
start_server --replica "$dir/nothing" --qos scrub=off
grep -q 'repair nothing from it' "$dir/serve" || fail "$(cat "$dir/serve")"
exits 0 q import "$dir/src2" later
rot 1000000
exits 21 q repair --replica "$other"
says 'affected:.*later'
stop_server
