#!/usr/bin/env bash
# The journal is damaged after a kill: the volume whose flushed write is lost is named by whoever opens it
# first, and by status; the other volumes, and what was written before and after, are whole.
. "$(dirname "$0")/common.sh"
requires qemu-io
new_pool
for name in one two; do exits 0 q volume create $name --size 1M; done
on() {
    local volume=$1
    shift
    qemu-io -f raw -t none "nbd+unix:///$volume?socket=$dir/nbd" "$@" >"$dir/io" 2>&1 || fail "$volume: $(cat "$dir/io")"
    ! grep -qi 'fail\|error' "$dir/io" || fail "$volume: $(cat "$dir/io")"
}
start_server --nbd-socket "$dir/nbd"
on one -c 'write -P 1 0 64k' -c flush
on two -c 'write -P 2 0 64k' -c flush
on one -c 'write -P 3 128k 64k' -c flush
kill_server
# Header, first write, and half of the second.
printf damage | dd of="$pool/journal/00" bs=1 seek=$((8192 + 65536 + 30000)) conv=notrunc status=none
start_server --nbd-socket "$dir/nbd"
grep -q 'volume two has lost writes: .* bytes 0 to 65536' "$dir/serve" || fail "not told: $(cat "$dir/serve")"
exits 21 q status
says 'state: DAMAGED'
says 'found: volume two has lost writes'
! grep -q 'volume one' "$dir/out" || fail "another volume is named: $(cat "$dir/out")"
on one -r -c 'read -P 1 0 64k' -c 'read -P 3 128k 64k'
on two -r -c 'read -P 0 0 1M'
stop_server
# Once told and put right there is no more of it.
exits 0 q volume snapshot two@after
! grep -q lost "$dir/err" || fail "told again: $(cat "$dir/err")"
sound
