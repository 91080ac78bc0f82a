#!/usr/bin/env bash
# An iSCSI initiator whose server is killed reconnects by itself and continues: every write that was acknowledged is
# there, flushed or not. With --iscsi-write-cache the disk says that it has one, and an initiator can switch it off.
. "$(dirname "$0")/common.sh"
requires qemu-io qemu-img
requires_qemu_iscsi
new_pool
exits 0 q volume create disk --size 64M
# An address of its own, so that nobody takes the port while there is no server.
address=127.$(($$ >> 16 & 127 | 64)).$(($$ >> 8 & 255)).$(($$ & 255))
start_server --iscsi-listen "$address:0"
port=$(sed -n "s|.*iscsi://$address:\([0-9]*\).*|\1|p" "$dir/serve")
disk=iscsi://$address:$port/iqn.2026-11.org.quintet:disk/0
mkfifo "$dir/commands"
# Writeback: qemu flushes only when it is told to.
qemu-io -f raw -t writeback "$disk" <"$dir/commands" >"$dir/io" 2>&1 &
initiator=$!
exec 7>"$dir/commands"
# does COMMAND ANSWER: one at a time; it reads no second line before something arrives.
does() {
    echo "$1" >&7
    wait_until grep -q "^\(qemu-io> \)*$2" "$dir/io"
}
does 'write -P 7 1M 64k' 'wrote 65536/65536 bytes at offset 1048576'
does 'write -z 4M 64k' 'wrote 65536/65536 bytes at offset 4194304'
does 'write -P 8 8M 4M' 'wrote 4194304/4194304'
kill -9 "$server"
wait "$server" 2>/dev/null || true
# Without the pipe, whose end would otherwise never be seen.
start_server --iscsi-listen "$address:$port" 7>&-
does 'read -P 7 1M 64k' 'read 65536/65536 bytes at offset 1048576'
does 'read -P 0 4M 64k' 'read 65536/65536 bytes at offset 4194304'
does 'read -P 8 8M 4M' 'read 4194304/4194304'
exec 7>&-
timeout --foreground 60 tail --pid=$initiator -f /dev/null
wait $initiator || fail "$(cat "$dir/io")"
! grep -qi 'fail\|error\|verification' "$dir/io" || fail "$(cat "$dir/io")"
stop_server
sound
