#!/bin/sh
# qemu-io writes, zeroes, discards and reads back; requests past the end fail.
. "$(dirname "$0")/common.sh"
requires_qemu_iscsi
serve --size 67108864
qemu-io -f raw -d unmap -c 'write -P 7 0 1M' -c 'write -f -P 8 1M 64k' -c 'write -z 64k 64k' \
    -c 'discard 256k 256k' -c flush -c 'read -P 7 0 64k' -c 'read -P 0 64k 64k' \
    -c 'read -P 7 128k 128k' -c 'read -P 0 256k 256k' -c 'read -P 8 1M 64k' \
    -c 'write -P 9 3M 20M' -c 'read -P 9 3M 20M' "$uri" >"$dir/log" 2>&1 || fail "$(cat "$dir/log")"
! grep -i 'fail\|error' "$dir/log" || fail "$(cat "$dir/log")"
qemu-io -f raw -c 'read 64M 512' "$uri" 2>&1 | grep -qi 'error\|fail' || fail "read past the end"
