#!/bin/sh
# qemu-io writes (with FUA), zeroes, discards, flushes and verifies patterns.
. "$(dirname "$0")/common.sh"
requires qemu-io
serve --size 8388608
qemu-io -f raw -t none -d unmap "$uri" \
    -c 'write -P 0xaa 0 1M' -c 'write -f -P 0xbb 1M 64k' -c 'write -z 512 4k' \
    -c 'write -z -u 128k 128k' -c 'discard 512k 64k' -c 'flush' \
    -c 'read -P 0xaa 0 512' -c 'read -P 0 512 4k' -c 'read -P 0xaa 5k 123k' \
    -c 'read -P 0 128k 128k' -c 'read -P 0xbb 1M 64k' -c 'read -P 0 2M 6M' >"$dir/log" 2>&1 ||
    fail "$(cat "$dir/log")"
! grep -qi 'fail\|error' "$dir/log" || fail "$(cat "$dir/log")"
