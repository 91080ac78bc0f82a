#!/usr/bin/env bash
# A file of a backed-up tree is served in place, without restoring it.
. "$(dirname "$0")/common.sh"
requires qemu-img
new_pool
mkdir "$dir/vms"
noise "$dir/vms/disk.raw" 5
truncate -s 40M "$dir/vms/disk.raw"
printf tail >>"$dir/vms/disk.raw"
exits 0 q backup "$dir/vms"
"$QUINTET" serve --read-only --nbd-socket "$dir/socket" \
    --export "latest:$dir/vms/disk.raw" >"$dir/log" 2>&1 &
server=$!
wait_until grep -q ^serving "$dir/log"
qemu-img compare -f raw -F raw "$dir/vms/disk.raw" "nbd:unix:$dir/socket" || fail "differs"
kill $server
code=0
wait $server || code=$?
server=
[ $code -eq 0 ] || fail "the server exited with $code: $(cat "$dir/log")"
