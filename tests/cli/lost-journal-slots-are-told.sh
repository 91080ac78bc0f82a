#!/usr/bin/env bash
# The slot of the journal that holds flushed writes is gone after a kill: check finds it, whoever opens the pool
# first names the volume, and status says DAMAGED until somebody has acknowledged it.
. "$(dirname "$0")/common.sh"
requires qemu-io
new_pool
for name in one two; do exits 0 q volume create $name --size 1M; done
start_server --nbd-socket "$dir/nbd"
qemu-io -f raw -t none "nbd+unix:///two?socket=$dir/nbd" -c 'write -P 2 64k 64k' -c flush >"$dir/io" 2>&1 ||
    fail "$(cat "$dir/io")"
exits 0 q check
says 'no damage found'
kill_server
exits 0 q check
rm "$pool/journal/00"
exits 21 q check
says 'volume two has lost writes'
exits 21 q check --read-data
start_server --nbd-socket "$dir/nbd"
grep -q 'volume two has lost writes: .* bytes 65536 to 131072' "$dir/serve" || fail "not told: $(cat "$dir/serve")"
exits 0 q check
stop_server
# Another process, and a clean end between: it is still told.
exits 21 q status
says 'state: DAMAGED'
says 'found: volume two has lost writes: bytes 65536 to 131072'
says 'acknowledge-lost-writes'
exits 0 q repair --acknowledge-lost-writes
says 'acknowledged lost writes: 1 range'
q status >"$dir/out" 2>&1 || true
! grep -q 'lost writes' "$dir/out" || fail "told again: $(cat "$dir/out")"
exits 0 q volume snapshot two@after
sound
