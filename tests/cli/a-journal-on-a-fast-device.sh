#!/usr/bin/env bash
# The journal is on a fast device: a killed server loses nothing that was flushed. Without the device the server does
# not start and says what to do; a device that is given up is a loss that status and check name until somebody
# acknowledges it. With a mirror nothing is lost. A server that ended in good order leaves a pool that needs no device.
. "$(dirname "$0")/common.sh"
requires qemu-io
new_pool
fast=$dir/fast
mkdir "$fast"
on_fast=(--nbd-socket "$dir/nbd" --fast "$fast" --fast-size 64M)
exits 0 q volume create one --size 4M
io() {
    qemu-io -f raw -t none "nbd+unix:///one?socket=$dir/nbd" "$@" >"$dir/io" 2>&1 || fail "$(cat "$dir/io")"
    ! grep -qi 'fail\|error' "$dir/io" || fail "$(cat "$dir/io")"
}
# refused TEXT ARGUMENT...: the server does not start, and says so.
refused() {
    local text=$1
    shift
    exits 1 timeout 60 "$QUINTET" serve --nbd-socket "$dir/nbd" "$@"
    says "$text"
    [ ! -e "$pool/control" ] || fail "a server that did not start left its socket"
}

# What makes no sense.
refused 'give its directory with --fast' --journal-on fast
exits 1 q serve "${on_fast[@]}" --journal-on pool --journal-mirror
says 'journal-mirror'

refused 'without --journal-lost' --journal-lost

# By default it is in the pool.
start_server "${on_fast[@]}"
io -c 'write -P 1 0 64k' -c flush
[ -e "$pool/journal/00" ] || fail "no journal in the pool"
[ ! -e "$fast/journal" ] || fail "a journal on the device that nobody asked for"
stop_server

# On the device, and after a kill.
start_server "${on_fast[@]}" --journal-on fast
grep -q 'losing it loses acknowledged writes' "$dir/serve" || fail "not told: $(cat "$dir/serve")"
[ ! -e "$pool/journal/00" ] || fail "a journal is left in the pool"
io -c 'write -P 2 64k 64k' -c flush
[ -e "$fast/journal/00" ] || fail "no journal on the device"
exits 0 q status
says 'in use, on the fast device only'
exits 0 q status --json
says '"journal_place":"fast"'
kill_server
exits 0 q status
says 'on a fast device only and was not looked at'
exits 0 q check
says 'was not checked'
start_server "${on_fast[@]}"
io -r -c 'read -P 1 0 64k' -c 'read -P 2 64k 64k'
io -c 'write -P 3 128k 64k' -c flush
kill_server

# Without it, and with another one.
refused 'no such device is given'
refused 'journal-lost'
exits 1 q volume snapshot one@before
says 'no such device is given'
mv "$fast" "$dir/away"
refused 'its directory is missing' --fast "$fast" --fast-size 64M
mkdir "$fast"
refused 'it is empty, or another one' --fast "$fast" --fast-size 64M
rmdir "$fast"
mv "$dir/away" "$fast"
start_server "${on_fast[@]}"
io -r -c 'read -P 3 128k 64k'
kill_server

# Given up: named, and no more once acknowledged.
mv "$fast" "$dir/away"
start_server --nbd-socket "$dir/nbd" --journal-lost
grep -q 'given up as lost' "$dir/serve" || fail "not told: $(cat "$dir/serve")"
exits 21 q status
says 'state: DAMAGED'
says 'lost'
io -r -c 'read -P 1 0 64k'
io -c 'write -P 4 128k 64k' -c flush
stop_server
exits 21 q status
says 'the journal has lost writes'
says 'acknowledge-lost-writes'
exits 0 q repair --acknowledge-lost-writes
q status >"$dir/out" 2>&1 || true
! grep -q 'lost writes' "$dir/out" || fail "told again: $(cat "$dir/out")"
# The device that was lost does not come back by mistake.
mv "$dir/away" "$fast"
start_server "${on_fast[@]}"
io -r -c 'read -P 4 128k 64k'
stop_server
refused 'another journal of this pool' --fast "$fast" --fast-size 64M --journal-on fast
rm -rf "$fast"
mkdir "$fast"

# Mirrored: the loss of the device loses nothing.
start_server "${on_fast[@]}" --journal-on fast --journal-mirror
io -c 'write -P 5 256k 64k' -c flush
exits 0 q status
says 'on the fast device and in the pool'
kill_server
mv "$fast" "$dir/away"
refused 'nothing is lost'
start_server --nbd-socket "$dir/nbd" --journal-on pool
io -r -c 'read -P 4 128k 64k' -c 'read -P 5 256k 64k'
exits 0 q status
! grep -q 'lost' "$dir/out" || fail "something is lost: $(cat "$dir/out")"
stop_server
rm -rf "$dir/away"
mkdir "$fast"

# ... and so does the loss of the copy in the pool.
start_server "${on_fast[@]}" --journal-on fast --journal-mirror
io -c 'write -P 6 320k 64k' -c flush
kill_server
rm -r "$pool/journal"
start_server "${on_fast[@]}"
io -r -c 'read -P 6 320k 64k'
exits 0 q status
stop_server

# After a good end nobody needs the device.
start_server "${on_fast[@]}" --journal-on fast
io -c 'write -P 7 384k 64k' -c flush
stop_server
rm -rf "$fast"
exits 0 q volume snapshot one@after
start_server --nbd-socket "$dir/nbd"
io -r -c 'read -P 1 0 64k' -c 'read -P 4 128k 64k' -c 'read -P 6 320k 64k' -c 'read -P 7 384k 64k'
exits 0 q status
stop_server
sound
