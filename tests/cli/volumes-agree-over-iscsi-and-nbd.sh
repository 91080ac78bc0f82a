#!/usr/bin/env bash
# A volume is an iSCSI target and an NBD export at once: each sees what the other wrote; what was synced
# survives a killed server; a client of either keeps the volume from being deleted; stored states are
# write-protected targets.
. "$(dirname "$0")/common.sh"
requires qemu-io qemu-img iscsi-ls
requires_qemu_iscsi
new_pool
exits 0 q volume create vm-1 --size 64M
start() {
    # The addresses of the server before are not read again.
    rm -f "$dir/serve"
    "$QUINTET" serve --nbd-socket "$dir/nbd" --iscsi-listen 127.0.0.1:0 >"$dir/serve" 2>&1 &
    server=$!
    wait_until grep -q iscsi:// "$dir/serve"
    portal=$(grep -o 'iscsi://[0-9.:]*' "$dir/serve" | head -1)
    target=$portal/iqn.2026-11.org.quintet:vm-1
}
start
iscsi-ls "$portal" | grep -q 'iqn.2026-11.org.quintet:vm-1 ' || fail "$(iscsi-ls "$portal")"
io() { qemu-io -f raw "$@" >"$dir/io" 2>&1 && ! grep -qi 'fail\|error' "$dir/io" || fail "$(cat "$dir/io")"; }
io -c 'write -P 5 1M 3M' -c flush "$target/0"
io -c 'read -P 5 1M 3M' -c 'read -P 0 0 1M' -c 'write -P 6 2M 64k' "nbd+unix:///vm-1?socket=$dir/nbd"
io -d unmap -c 'read -P 6 2M 64k' -c 'discard 3M 1M' -c 'read -P 0 3M 1M' -c 'write -f -P 7 8M 1M' "$target/0"
kill -9 "$server"
wait "$server" 2>/dev/null || true
start
io -c 'read -P 5 1M 1M' -c 'read -P 6 2M 64k' -c 'read -P 0 3M 1M' -c 'read -P 7 8M 1M' "$target/0"
exits 0 q volume snapshot vm-1@before
io -c 'read -P 7 8M 1M' -r "$target:before/0"
qemu-io -f raw -c 'write 0 512' "$target:before/0" >"$dir/io" 2>&1 && fail "wrote to a snapshot"
# A session keeps the volume.
mkfifo "$dir/commands"
qemu-io -f raw "$target/0" <"$dir/commands" >"$dir/held" 2>&1 &
held=$!
exec 7>"$dir/commands"
echo 'read 0 512' >&7
wait_until grep -q 'read 512/512' "$dir/held"
q volume delete vm-1 >"$dir/delete" 2>&1 && fail "deleted under a session"
grep -q "in use" "$dir/delete" || fail "$(cat "$dir/delete")"
echo 'read 512 512' >&7
exec 7>&-
wait $held || fail "$(cat "$dir/held")"
stop_server
sound
