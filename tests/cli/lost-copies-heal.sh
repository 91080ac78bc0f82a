#!/usr/bin/env bash
# The index, the config, key slots and the newest root may each lose a copy: nothing is lost.
# Sealed: key slots are among what is lost.
. "$(dirname "$0")/common.sh"
sealed
real_tree "$dir/src" 20
new_pool
exits 0 q backup "$dir/src"
rm -rf "$pool/cache"
exits 0 q restore "latest:$dir/src" --target "$dir/back"
same "$dir/src" "$dir/back"
before=$(stored_bytes)
exits 0 q backup --force "$dir/src"
[ $(($(stored_bytes) - before)) -lt 131072 ] || fail "without its index the pool stored everything again"
rm "$pool/config"
rm "$pool"/mirror/keys/*
: >"$(find "$pool/roots" -type f | sort | tail -n 1)"
exits 0 q snapshots
exits 0 q backup "$dir/src"
[ -s "$pool/config" ] || fail "the config did not heal"
[ -n "$(ls "$pool/mirror/keys")" ] || fail "the key slot did not heal"
[ "$(snapshots)" -eq 3 ] || fail "$(snapshots) snapshots"
sound
