#!/bin/sh
# A client that is killed in the middle of writing logs in again at once, under its old name, and
# finds what was acknowledged. A second session of the same port ends the first.
. "$(dirname "$0")/common.sh"
requires_qemu_iscsi
serve --size 67108864
qemu-io -f raw -c 'write -P 1 0 64k' -c flush "$uri" >/dev/null
# What it sends passes through system calls that write.
has_written() { [ "$(sed -n 's/^wchar: //p' "/proc/$client/io")" -ge 4194304 ]; }
for round in 1 2 3; do
    qemu-img bench -f raw -w -d 32 -s 65536 -c 1000000 "$uri" >/dev/null 2>&1 &
    client=$!
    wait_until has_written
    kill -9 $client
    wait $client 2>/dev/null || true
    client=
    qemu-io -f raw -c "write -P $round 0 64k" -c "read -P $round 0 64k" "$uri" >"$dir/log" 2>&1
    ! grep -qi 'fail\|error' "$dir/log" || fail "$(cat "$dir/log")"
done
