#!/bin/sh
# A new size is a unit attention, once, and then the new capacity.
. "$(dirname "$0")/common.sh"
serve_controlled --size 1048576
mkfifo "$dir/ready" "$dir/go"
initiator "$dir/ready" "$dir/go" <<'P' &
from initiator import *
import sys
i = Initiator().login()
assert i.run(bytes(6))[0] == 0
open(sys.argv[1], "w").close()
open(sys.argv[2]).read()
assert i.run(bytes(6))[:2] == (2, (6, 0x2A, 9))
assert i.run(bytes(6))[0] == 0
last = struct.unpack(">I", i.run(bytes([0x25] + [0] * 9), 8)[2][:4])[0]
assert last == 4095, last
P
client=$!
cat "$dir/ready"
control resize "$target" 2097152
echo >"$dir/go"
wait $client
client=
