#!/usr/bin/env bash
# A server gives each request of a volume its class, by the file system inside: a policy holds from the start or from
# `policy set` on, caches obey it, and nobody else notices.
. "$(dirname "$0")/common.sh"
requires nbdcopy qemu-io qemu-img mkfs.ext4 debugfs curl python3
# Small files, one large file, and room for more.
mkdir "$dir/tree"
noise "$dir/tree/large" 24
for n in $(seq 200); do head -c 3000 /dev/urandom >"$dir/tree/small$n"; done
truncate -s 96M "$dir/image"
mkfs.ext4 -q -F -b 4096 -d "$dir/tree" "$dir/image" || fail "mkfs.ext4"
cat >"$dir/mine.csv" <<'CSV'
IO class id,IO class name,Eviction priority,Allocation
0,unclassified,100,1.00
1,metadata,,0.50
2,file_size:le:65536,10,1.00
3,file_size:gt:65536,200,0.10
9,volume:other*,50,0.00
CSV
new_pool
exits 0 q import "$dir/image" stored
exits 0 q volume clone stored disk
# status: the policy's state into $dir/status.json; classes CLASS FIELD: a number of it.
status() { q policy status --json | grep policy_status >"$dir/status.json"; }
class() {
    status
    python3 - "$dir/status.json" "$1" "$2" <<'PY'
import json, sys
classes = json.load(open(sys.argv[1]))["classes"]
print(next(c[sys.argv[3]] for c in classes if c["class"] == int(sys.argv[2])))
PY
}
learned() { status && grep -q '"complete":true' "$dir/status.json" && ! grep -q '"recognised":0,' "$dir/status.json"; }
uri() { echo "nbd+unix:///$1?socket=$dir/nbd"; }
block() { debugfs -R "blocks /$1" "$dir/image" 2>/dev/null | awk 'NR == 1 { print $1 }'; }
# hold EXPORT: a client that stays, so that what was learned stays; its process is $holder.
hold() {
    qemu-io -f raw -t none "$(uri "$1")" -c 'read -q 0 4k' -c 'sleep 600000' >/dev/null 2>&1 &
    holder=$!
}
io() { qemu-io -f raw -t none "$(uri disk)" "$@" >"$dir/io" 2>&1 || fail "$(cat "$dir/io")"; }

# A policy with a mistake starts no server.
sed 's/^2,/2x,/' "$dir/mine.csv" >"$dir/bad.csv"
exits 1 q serve --nbd-socket "$dir/nbd" --policy "$dir/bad.csv"
says 'line 4'
exits 1 q policy status
says 'no server'

start_server --nbd-socket "$dir/nbd" --policy "$dir/mine.csv" --metrics 127.0.0.1:0 --qos gc=off scrub=off
hold disk
wait_until learned
[ "$(class 2 reads)" -eq 0 ] || fail "a small file was read by nobody: $(cat "$dir/status.json")"
small=$(block small7) large=$(block large)
for _ in 1 2; do io -c "read -q $((small * 4096)) 4k"; done
io -c "read -q $((large * 4096)) 4k" -c 'read -q 1024 1024'
[ "$(class 2 reads)" -eq 2 ] || fail "small7 is class 2: $(cat "$dir/status.json")"
[ "$(class 2 cache_hits)" -ge 1 ] || fail "the second read was a hit: $(cat "$dir/status.json")"
[ "$(class 3 reads)" -ge 1 ] || fail "large is class 3: $(cat "$dir/status.json")"
[ "$(class 1 reads)" -ge 1 ] || fail "the superblock is class 1: $(cat "$dir/status.json")"
# All of it is read as it was.
nbdcopy "$(uri disk)" "$dir/read"
cmp "$dir/image" "$dir/read" || fail "the volume reads wrong"
metrics=$(sed -n 's|.*metrics at \(http://[^ ]*\).*|\1|p' "$dir/serve")
[ -n "$metrics" ] || fail "no metrics: $(cat "$dir/serve")"
curl -sf "$metrics" | matches 'quintet_class_requests_total{class="2",operation="read"}' ||
    fail "the metrics know no classes"
kill "$holder"
wait "$holder" 2>/dev/null || true

# A second policy at run time, by name; then none. A mistake changes nothing.
exits 0 q policy set vm-images
exits 0 q policy status
says 'policy vm-images'
exits 1 q policy set "$dir/bad.csv"
exits 0 q policy status
says 'policy vm-images'
exits 0 q policy set none
exits 0 q policy status
says 'no policy is in force'
cd "$dir" && exits 0 q policy set ./mine.csv && cd - >/dev/null
hold disk
wait_until learned
# The file system is overwritten: what was a small file is no longer one.
io -c 'write -q -z 0 8M' -c flush
gone() {
    io -c "read -q $((small * 4096)) 4k"
    status && grep -q '"recognised":0,' "$dir/status.json"
}
wait_until gone
before=$(class 2 reads)
io -c "read -q $((small * 4096)) 4k"
[ "$(class 2 reads)" -eq "$before" ] || fail "no file system is there: $(cat "$dir/status.json")"
kill "$holder"
wait "$holder" 2>/dev/null || true
stop_server
sound
