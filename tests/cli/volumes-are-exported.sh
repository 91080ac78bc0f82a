#!/usr/bin/env bash
# A volume is exported as it is now, with every write that was acknowledged, with and without a server, to a file and to
# standard output; a snapshot of it as it was.
. "$(dirname "$0")/common.sh"
requires qemu-io qemu-img
uri() { echo "nbd+unix:///$1?socket=$dir/nbd"; }
fill() { qemu-io -f raw -c "write -P $2 1M 1M" "$(uri "$1")" >"$dir/io" 2>&1 || fail "no write: $(cat "$dir/io")"; }
# pattern FILE BYTE: bytes of the second mebibyte.
pattern() {
    [ "$(stat -c %s "$1")" -eq $((3 << 20)) ] || fail "$1 has $(stat -c %s "$1") bytes"
    qemu-io -f raw -r -c "read -P $2 1M 1M" "$1" >"$dir/io" 2>&1 && ! grep -qi 'fail\|verif' "$dir/io" ||
        fail "$1 has not $2: $(cat "$dir/io")"
}
new_pool
exits 0 q volume create web --size 3M
start_server --nbd-socket "$dir/nbd"
fill web 1
exits 0 q volume snapshot web@one
fill web 2
exits 0 q export web served.raw
says 'exported web (3.00 MiB)'
pattern served.raw 2
"$QUINTET" export web - >piped.raw 2>said || fail "$(cat said)"
pattern piped.raw 2
exits 1 q export web served.raw
says "use --force"
exits 0 q export web@one then.raw
pattern then.raw 1
exits 0 q export -f qcow2 web now.qcow2
says "up to 3.00 MiB, without its zeroes"
qemu-img compare -q -f raw -F qcow2 served.raw now.qcow2 || fail "as qcow2"
exits 0 q export web out.raw --json
says '"message_type":"summary".*"volume":"web"'
fill web 3
# What is only in the journal counts.
kill_server
exits 0 q export web alone.raw
pattern alone.raw 3
"$QUINTET" export web - >piped.raw 2>said || fail "$(cat said)"
pattern piped.raw 3
exits 0 q export web@one then.raw --force
pattern then.raw 1
exits 1 q export none out
says "no image or stream"
# Nothing is left of an export.
! q undelete --json | grep -q '"message_type":"forgotten"' || fail "$(q undelete)"
[ "$(snapshots)" -eq 1 ] || fail "$(q snapshots)"
sound
