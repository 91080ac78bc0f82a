#!/usr/bin/env bash
# Damage that a command found which only reads is known to the next backup: without any repair the new snapshot is
# whole. A reader that cannot leave word says so.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src" && noise "$dir/src/file" 6
rot() {
    container=$(find "$pool/containers" -type f -size +1M | sort | head -n 1)
    printf '\377\376\375' | dd of="$container" bs=1 seek="$1" conv=notrunc status=none
}
for reader in "check --read-data" "restore latest --target $dir/back" "dump latest $dir/src/file"; do
    rm -rf "$pool" "$dir/back"
    new_pool --parity 0
    exits 0 q backup "$dir/src"
    rot 3000000
    code=0
    # shellcheck disable=SC2086
    q $reader >"$dir/out" 2>"$dir/err" || code=$?
    [ $code -ne 0 ] || fail "$reader found nothing"
    exits 21 q status
    says 'state: DAMAGED'
    touch -d 'yesterday' "$dir/src/file"
    exits 0 q backup "$dir/src"
    exits 0 q status
    rm -rf "$dir/back"
    exits 0 q restore latest --target "$dir/back"
    cmp "$dir/src/file" "$dir/back$dir/src/file"
    [ "$(q snapshots --json | grep -c '"message_type":"snapshot"')" -eq 2 ]
done

# Beside a server, which runs the backup.
rm -rf "$pool" "$dir/back"
new_pool
exits 0 q backup "$dir/src"
start_server
rot 3000000
exits 21 q check --read-data
touch "$dir/src/file"
exits 0 q backup "$dir/src"
exits 0 q status
exits 0 q restore latest --target "$dir/back"
cmp "$dir/src/file" "$dir/back$dir/src/file"
stop_server

# A reader that may not write to the pool.
requires_root
requires setpriv
export QUINTET_REPOSITORY=$dir/open
pool=$dir/open
new_pool --parity 0
exits 0 q backup "$dir/src"
rot 3000000
chmod 0755 "$dir"
chmod -R a+rX "$pool"
cp "$QUINTET" "$dir/quintet" && chmod 0755 "$dir/quintet"
exits 21 setpriv --reuid 65534 --regid 65534 --clear-groups "$dir/quintet" check --read-data
says 'cannot record the damage in the pool'
