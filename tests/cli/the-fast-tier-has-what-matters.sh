#!/usr/bin/env bash
# With a policy, metadata that a client reads in order is on the fast device after a restart, and so is what it writes.
# Bulk data that it reads in order is not, and pushes nothing out.
. "$(dirname "$0")/common.sh"
requires nbdcopy qemu-io mkfs.ext4 dumpe2fs python3
mkdir "$dir/tree" "$dir/fast"
noise "$dir/tree/large" 60
for n in $(seq 300); do head -c 3000 /dev/urandom >"$dir/tree/small$n"; done
truncate -s 128M "$dir/image"
mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0 -d "$dir/tree" "$dir/image" || fail "mkfs.ext4"
cat >"$dir/mine.csv" <<'CSV'
IO class id,IO class name,Eviction priority,Allocation
0,unclassified,160,1.00
1,metadata,0,1.00
# fast: 1,0,0.90
2,journal,1,0.10
# fast: 2,200,0.05
3,file_size:gt:65536,150,1.00
CSV
new_pool
exits 0 q import "$dir/image" stored
exits 0 q volume clone stored disk
uri="nbd+unix:///disk?socket=$dir/nbd"
io() { qemu-io -f raw -t none "$uri" "$@" >"$dir/io" 2>&1 || fail "$(cat "$dir/io")"; }
status() { q policy status --json | grep policy_status >"$dir/status.json"; }
# class CLASS FIELD: a number of it.
class() {
    status
    python3 - "$dir/status.json" "$1" "$2" <<'PY'
import json, sys
classes = json.load(open(sys.argv[1]))["classes"]
print(next(c[sys.argv[3]] for c in classes if c["class"] == int(sys.argv[2])))
PY
}
learned() { status && grep -q '"complete":true' "$dir/status.json" && ! grep -q '"recognised":0,' "$dir/status.json"; }
is_ready() { q status | matches 'fast tier: in use'; }
# A server with a client that stays, so that what was learned of the file system stays.
serve() {
    start_server --nbd-socket "$dir/nbd" --policy "$dir/mine.csv" --fast "$dir/fast" --fast-size 64M \
        --qos gc=off scrub=off
    wait_until is_ready
    qemu-io -f raw -t none "$uri" -c 'read -q 0 4k' -c 'sleep 600000' >/dev/null 2>&1 &
    holder=$!
    wait_until learned
}
end() {
    kill "$holder"
    wait "$holder" 2>/dev/null || true
    stop_server
}
# The inode tables that have inodes of the tree, as `find` or a check would read them.
inodes=$(dumpe2fs "$dir/image" 2>/dev/null | sed -n 's/.*Inode table at \([0-9]*\)-\([0-9]*\).*/\1/p' | awk 'NR == 1')
[ -n "$inodes" ] || fail "no inode table is named"
reads=()
for n in 0 1 2 3; do reads+=(-c "read -q $(((inodes + 4 * n) * 4096)) 16k"); done
read_inodes() { io "${reads[@]}"; }

# A block of the last table that no file needs: nothing reads its chunk by itself, which may have some blocks more.
last=$(dumpe2fs "$dir/image" 2>/dev/null | sed -n 's/.*Inode table at [0-9]*-\([0-9]*\).*/\1/p' | tail -n 1)
last=$((last - 16))

serve
[ "$(class 1 tier_hits)" -eq 0 ] || fail "the tier was empty: $(cat "$dir/status.json")"
read_inodes
# What is written enters when it is stored, and not before.
io -c "write -q -P 7 $((last * 4096)) 4k" -c flush
exits 0 q volume snapshot disk@now
# Everything is read in order, twice: bulk data comes and goes.
for _ in 1 2; do nbdcopy "$uri" "$dir/read"; done
[ "$(class 3 read_bytes)" -gt 0 ] || fail "nothing is bulk: $(cat "$dir/status.json")"
end

# has_metadata WHEN: what was read and what was written comes from the fast tier. Which reads of metadata it answers
# depends on when the server has learned what they are; it is one at least, and that of the block which nothing else
# reads.
has_metadata() {
    local before
    read_inodes
    before=$(class 1 tier_hits)
    [ "$before" -ge 1 ] || fail "no metadata came from the fast tier $1: $(class 1 tier_hits) $(cat "$dir/status.json")"
    io -c "read -q -P 7 $((last * 4096)) 4k"
    [ "$(class 1 tier_hits)" -gt "$before" ] ||
        fail "what was written is not there $1: hits before $before, $(cat "$dir/status.json")"
}

serve
has_metadata "after a restart"
nbdcopy "$uri" "$dir/read2"
cmp "$dir/read" "$dir/read2" || fail "the volume reads wrong"
# Short requests at ends of extents are no stream; the file has 3,840 chunks.
[ "$(class 3 tier_hits)" -lt 100 ] || fail "a stream went to flash: $(cat "$dir/status.json")"
end

# The scan took nothing away.
serve
has_metadata "after a scan"
exits 0 q policy status
says 'in memory/on the fast tier'
end
sound
