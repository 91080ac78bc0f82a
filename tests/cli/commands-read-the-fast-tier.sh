#!/usr/bin/env bash
# QUINTET_FAST names the fast device once for all commands of a machine: `serve` and `mount` fill it, and commands without
# a server read it: with the containers taken away, what is there is still restored. `check` does not believe it.
. "$(dirname "$0")/common.sh"
requires nbdcopy
# What is on the device is sealed as the pool is.
sealed
new_pool
mkdir "$dir/fast"
# Less than may wait to be written to the tier, so that all of it enters on a busy machine too.
noise "$dir/disk" 4
cat >"$dir/mine.csv" <<'CSV'
IO class id,IO class name,Eviction priority,Allocation
0,unclassified,1,1.00
CSV
export QUINTET_FAST=$dir/fast
exits 1 q serve --nbd-socket "$dir/nbd"
says "QUINTET_FAST_SIZE"
export QUINTET_FAST_SIZE=lots
exits 1 q serve --nbd-socket "$dir/nbd"
says "QUINTET_FAST_SIZE"
export QUINTET_FAST_SIZE=64M
QUINTET_FAST=/dev/null exits 1 q serve --nbd-socket "$dir/nbd"
says "make a file system on it"
exits 0 q import "$dir/disk" image
start_server --nbd-socket "$dir/nbd" --policy "$dir/mine.csv" --qos gc=off scrub=off
is_ready() { q status | matches 'fast tier: in use'; }
wait_until is_ready
nbdcopy "nbd+unix:///image?socket=$dir/nbd" "$dir/back"
cmp "$dir/disk" "$dir/back" || fail "other bytes"
is_there() { [ "$(stat -c %s "$dir"/fast/quintet-tier-*[0-9a-f])" -gt $((3 << 20)) ]; }
wait_until is_there
stop_server
tier=$(echo "$dir"/fast/quintet-tier-*[0-9a-f])
before=$(cksum <"$tier")

# The regions of the data are wrong: what is restored can only come from the tier. The end of a container has its
# directory, and the recipe is in another, smaller one.
cp -a "$pool" "$dir/whole"
largest=$(find "$pool/containers" -type f -size +2M)
[ -n "$largest" ] || fail "no large container"
for container in $largest; do
    dd if=/dev/zero of="$container" bs=4096 seek=16 count=256 conv=notrunc status=none
done
exits 0 q export image "$dir/exported"
cmp "$dir/disk" "$dir/exported" || fail "other bytes"
exits 0 q dump image --target "$dir/dumped"
cmp "$dir/disk" "$dir/dumped" || fail "other bytes"
[ "$(cksum <"$tier")" = "$before" ] || fail "a reader changed the tier"
exits 21 q check --read-data
rm "$dir/exported"
unset QUINTET_FAST QUINTET_FAST_SIZE
exits 21 q export image "$dir/exported"

# A tier that is missing or damaged costs time only.
rm -rf "$pool"
mv "$dir/whole" "$pool"
export QUINTET_FAST=$dir/fast QUINTET_FAST_SIZE=64M
dd if=/dev/urandom of="$tier" bs=64K count=100 conv=notrunc status=none
rm -f "$dir/exported"
exits 0 q export image "$dir/exported"
cmp "$dir/disk" "$dir/exported" || fail "other bytes"
rm -rf "$dir/fast" "$dir/exported"
exits 0 q export image "$dir/exported"
cmp "$dir/disk" "$dir/exported" || fail "other bytes"
[ ! -e "$dir/fast" ] || fail "a reader made the device's directory"
