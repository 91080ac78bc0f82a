#!/usr/bin/env bash
# A pool that was set back to an older state, and another one in its place, are said before anything is stored or
# restored, each time, until the user accepts them.
# Sealed: tampering is its subject, and the password that two pools share.
. "$(dirname "$0")/common.sh"
sealed
mkdir "$dir/src" && echo 1 >"$dir/src/file"
new_pool
exits 0 q backup "$dir/src"
cp -a "$pool" "$dir/older"
echo 2 >"$dir/src/file"
exits 0 q backup "$dir/src"
exits 0 q snapshots
[ ! -s "$dir/err" ] || fail "nothing was wrong: $(cat "$dir/err")"
[ "$(stat -c %a "$QUINTET_CACHE_DIR/pools" "$QUINTET_CACHE_DIR"/pools/* | sort | uniq | tr '\n' ' ')" = '600 700 ' ] ||
    fail "what is remembered can be read by others"
mv "$pool" "$dir/newer" && cp -a "$dir/older" "$pool"
for command in snapshots "backup $dir/src" "restore latest --target $dir/back"; do
    # shellcheck disable=SC2086
    exits 0 q $command
    says 'set back to an older state'
    rm -rf "$pool" && cp -a "$dir/older" "$pool"
done
exits 0 q --json snapshots
says '"message_type":"error".*older state'
# Said until it is accepted, and never again after that.
exits 0 q --accept-changed-pool snapshots
exits 0 q snapshots
[ ! -s "$dir/err" ] || fail "it was accepted: $(cat "$dir/err")"
# Another pool with the same password.
rm -rf "$pool"
QUINTET_CACHE_DIR=$dir/attacker exits 0 q init
for _ in 1 2; do
    exits 0 q snapshots
    says 'another pool'
done
exits 0 q --accept-changed-pool snapshots
exits 0 q snapshots
[ ! -s "$dir/err" ] || fail "it was accepted: $(cat "$dir/err")"
# What is remembered may be lost, torn or not writable: no error.
for known in "$QUINTET_CACHE_DIR"/pools/*; do head -c 40 /dev/urandom >"$known"; done
exits 0 q snapshots
QUINTET_CACHE_DIR=/proc/nowhere exits 0 q backup "$dir/src"
QUINTET_CACHE_DIR=relative exits 1 q snapshots
says QUINTET_CACHE_DIR
# A server's commits count.
start_server
exits 0 q backup "$dir/src"
cp -a "$pool" "$dir/older2"
echo 3 >"$dir/src/file"
exits 0 q backup "$dir/src"
kill "$server" && wait "$server"
server=
rm -rf "$pool" && mv "$dir/older2" "$pool"
exits 0 q snapshots
says 'set back to an older state'
