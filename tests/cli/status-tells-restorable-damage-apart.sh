#!/usr/bin/env bash
# What parity restores is damage too: status names it, apart from damage that lost something, from when any reader has met
# it until it is put back, by scrub, repair or whoever commits next.
. "$(dirname "$0")/common.sh"
noise "$dir/image" 9
new_pool
exits 0 q import "$dir/image" disk
exits 0 q status
container=$(find "$pool/containers" -type f -size +1M | sort | head -n 1)
spoil() {
    dd if=/dev/urandom of="$container" bs=4096 seek=300 count="$1" conv=notrunc status=none
}
is_told() {
    exits 3 q status
    says 'state: DEGRADED'
    says 'found: 1 damaged container; parity can restore all data'
    says 'action: run quintet scrub'
    exits 3 q status --json
    says '"kind":"data_restorable","severity":"attention"'
    ! grep -q data_damaged "$dir/out" || fail "$(cat "$dir/out")"
}
for reader in 'check --read-data' "export -f raw disk $dir/exported" 'repair --dry-run'; do
    spoil 1
    rm -f "$dir/exported"
    # shellcheck disable=SC2086
    q $reader >"$dir/out" 2>&1 || [ $? -eq 21 ] || fail "$(cat "$dir/out")"
    is_told
    exits 20 q scrub
    exits 0 q status
done
# Whoever commits next puts it back.
spoil 1
exits 21 q check --read-data
is_told
echo more | q backup --stdin --stdin-filename more >/dev/null
exits 0 q status
sound
# A server does so by itself, at the latest with its next commit.
spoil 1
exits 21 q check --read-data
is_told
start_server
is_online() { q status >/dev/null 2>&1; }
wait_until is_online
stop_server
sound
# What it cannot restore is lost, and said so.
spoil 400
exits 21 q scrub
exits 21 q status
says 'state: DAMAGED'
exits 21 q status --json
says '"kind":"data_damaged","severity":"damage"'
! grep -q data_restorable "$dir/out" || fail "$(cat "$dir/out")"
