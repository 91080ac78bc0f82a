#!/usr/bin/env bash
# Images come out of qemu's formats without a temporary file, from NBD servers and from standard input, and go to standard
# output; beside a server too. What cannot be read is said, and no qemu-nbd stays behind.
. "$(dirname "$0")/common.sh"
requires qemu-img qemu-nbd qemu-io pgrep script
truncate -s 48M disk.raw
noise some 3
dd if=some of=disk.raw bs=1M seek=20 conv=notrunc status=none
qemu-img convert -O qcow2 disk.raw disk.qcow2
truncate -s 48M text.raw
base64 -w 0 some | dd of=text.raw bs=1M seek=20 conv=notrunc status=none
qemu-img convert -O qcow2 -c text.raw small.qcow2
new_pool
comes_back() {
    exits 0 q export "$1" out.raw --force
    cmp "${2:-disk.raw}" out.raw || fail "$1 has other bytes"
}
# Programs that this script started and that show an image of its directory.
shows() { pgrep -f "qemu-nbd.*$dir/" >/dev/null; }

for with_server in no yes; do
    [ $with_server = no ] || start_server --nbd-socket "$dir/own"
    # Nothing but a socket is ever in TMPDIR, and its name may be long.
    tmp=$dir/$with_server/$(printf 'long%.0s' {1..40}) && mkdir -p "$tmp"
    exits 0 env TMPDIR="$tmp" "$QUINTET" import disk.qcow2 "disk-$with_server"
    says "image disk-$with_server: read 48.0 MiB"
    [ -z "$(ls "$tmp")" ] || fail "left in TMPDIR: $(ls "$tmp")"
    exits 1 env TMPDIR="$dir/none" "$QUINTET" import small.qcow2 none
    says "cannot create a temporary directory in $dir/none; set TMPDIR"
    comes_back "disk-$with_server"
    ! shows || fail "a qemu-nbd stayed"

    # Standard input and output.
    "$QUINTET" import - "input-$with_server" <disk.raw >said 2>&1 || fail "$(cat said)"
    comes_back "input-$with_server"
    head -c 1234567 some | "$QUINTET" import - "odd-$with_server" >said 2>&1 || fail "$(cat said)"
    "$QUINTET" export "odd-$with_server" - >out.odd 2>said || fail "$(cat said)"
    head -c 1234567 some | cmp - out.odd || fail "an odd number of bytes"
    exits 1 q import - empty
    says "standard input is empty or closed"
    ! "$QUINTET" import - wrong <disk.qcow2 >said 2>&1 && grep -q "is a qcow2 image.*-f raw" said || fail "$(cat said)"
    "$QUINTET" import -f raw - "file-$with_server" <disk.qcow2 >said 2>&1 || fail "$(cat said)"
    comes_back "file-$with_server" disk.qcow2
    exits 1 q import -f qcow2 - wrong
    says "save it in a file"
    exits 1 q export -f qcow2 "disk-$with_server" -
    says "give a file"
    ! script -qec "'$QUINTET' export 'disk-$with_server' -" /dev/null >said </dev/null 2>&1 || fail "binary data on a terminal"
    grep -q "standard output is a terminal" said || fail "$(cat said)"
done
q snapshots --json | grep '"name":"input-no"' | grep -q '"kind":"image"' || fail "$(q snapshots --json)"

# Our own server.
exits 0 q volume create web --size 5M
qemu-io -f raw -c 'write -P 7 1M 1M' -c flush "nbd+unix:///web?socket=$dir/own" >io || fail "$(cat io)"
exits 0 q import "nbd+unix:///web?socket=$dir/own" of-own
exits 0 q export of-own out.raw --force
qemu-img compare -q -f raw -F raw "nbd+unix:///web?socket=$dir/own" out.raw || fail "an export of our own server"
stop_server
# Others, with and without news of zeroes, over TCP.
answers() { qemu-img info "$1" >/dev/null; }
serve_once() { # serve_once ARGUMENT...: a qemu-nbd on a port; its process is $other_server
    port=$((20000 + RANDOM % 20000))
    qemu-nbd -r -t -p $port -b 127.0.0.1 "$@" 2>nbd.err &
    other_server=$!
    wait_until answers "nbd://127.0.0.1:$port/${name:-}"
}
name=a/b serve_once -x a/b -f qcow2 disk.qcow2
exits 0 q import "nbd://127.0.0.1:$port/a%2Fb" remote
comes_back remote
exits 1 q import "nbd://127.0.0.1:$port/other" remote
says "cannot open the NBD export \"other\".*nbdinfo"
exits 1 q import -f qcow2 "nbd://127.0.0.1:$port/a%2Fb" remote
says "leave out -f qcow2"
kill $other_server && wait $other_server 2>/dev/null || true
exits 1 q import "nbd://127.0.0.1:$port/a%2Fb" remote
says "cannot connect to the NBD server at 127.0.0.1 port $port; check"
exits 1 q import "nbds://127.0.0.1/x" remote
says "ssh -L"
if command -v nbdkit >/dev/null; then
    # Without structured replies; with sectors that cannot be read.
    port=$((20000 + RANDOM % 20000))
    nbdkit -f --no-sr -p $port -i 127.0.0.1 --filter=error file disk.raw error-pread-rate=100% error-file=broken 2>nbd.err &
    other_server=$!
    wait_until answers "nbd://127.0.0.1:$port"
    exits 0 q import "nbd://127.0.0.1:$port" simple
    comes_back simple
    touch broken
    exits 1 q import "nbd://127.0.0.1:$port" bad
    says "input/output error at byte 0; save .*--skip-bad-sectors"
    exits 1 q import "nbd://127.0.0.1:$port" bad --skip-bad-sectors
    says "nothing of .* can be read"
    kill $other_server && wait $other_server 2>/dev/null || true
fi

# A cluster that does not decompress: an error, or zeroes and exit code 3.
python3 - small.qcow2 <<'P'
import struct, sys
with open(sys.argv[1], "r+b") as f:
    f.seek(40); l1 = struct.unpack(">Q", f.read(8))[0]
    f.seek(l1); l2 = struct.unpack(">Q", f.read(8))[0] & 0x00fffffffffffe00
    f.seek(l2 + 8 * (21 << 4)); entry = struct.unpack(">Q", f.read(8))[0]
    assert entry >> 62 == 1, hex(entry)
    f.seek((entry & ((1 << 54) - 1)) + 10); f.write(b"\xff" * 200)
P
exits 1 q import small.qcow2 hurt
says "error at byte [0-9]*; save .*--skip-bad-sectors"
exits 3 q import small.qcow2 hurt --skip-bad-sectors
says "cannot read [0-9]* bytes at byte 22020096; zeroes are stored there"
exits 3 q import small.qcow2 hurt --allow-damaged
exits 0 q export hurt out.raw --force
differ=$({ cmp -l text.raw out.raw || true; } | wc -l)
[ "$differ" -gt 0 ] && [ "$differ" -le 65536 ] || fail "$differ bytes differ"

# An interrupt ends the qemu-nbd too.
noise large 300
qemu-img convert -O qcow2 large large.qcow2
"$QUINTET" import large.qcow2 large >said 2>&1 &
importing=$!
until shows || has_ended $importing; do :; done
kill -INT $importing
wait $importing && fail "not interrupted: $(cat said)"
gone() { ! shows; }
wait_until gone
"$QUINTET" import large.qcow2 large >said 2>&1 &
importing=$!
until shows || has_ended $importing; do :; done
kill -9 $importing
wait $importing 2>/dev/null || true
wait_until gone
sound
