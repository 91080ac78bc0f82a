#!/usr/bin/env bash
# Measures 4 KiB random direct reads and writes and 1 MiB sequential direct reads of a volume in memory:
# as a file of a mount, and over NBD on a unix socket, interleaved, so that other load hits both alike.
# Prints for each run: operations per second, and CPU microseconds of the server per operation.
#
# ROUNDS (default 3), SECONDS_EACH (default 3), DEPTHS (default "1 16").
set -eu
here=$(cd "$(dirname "$0")" && pwd)
rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-3} depths=${DEPTHS:-1 16}
examples=${CARGO_TARGET_DIR:-$here/../../target}/release/examples
dir=$(mktemp -d)
trap 'umount -l "$dir/mount" 2>/dev/null; kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
mkdir "$dir/mount"
size=268435456
declare -A pid target
"$examples/fuse_memory" --size $size "$dir/mount" >/dev/null & pid[fuse]=$!
"$examples/nbd_memory" --size $size "$dir/socket" >/dev/null & pid[nbd]=$!
sleep 1
target[fuse]="--ioengine=libaio --direct=1 --filename=$dir/mount/disk"
target[nbd]="--ioengine=nbd --uri=nbd+unix:///?socket=$dir/socket"
ticks() { awk '{ print $14 + $15 }' "/proc/${pid[$1]}/stat"; }
for name in fuse nbd; do
    fio --name=fill ${target[$name]} --rw=write --bs=256k --size=$size --output=/dev/null
done
run() { # name, mode, depth, block
    local before after
    before=$(ticks "$1")
    (cd "$dir" && fio --name=run ${target[$1]} --rw="$2" --bs="$4" --iodepth="$3" --size=$size \
        --runtime="$seconds" --time_based --output-format=json --output="$dir/json" 2>/dev/null)
    after=$(ticks "$1")
    python3 - "$dir/json" "$1" "$2" "$3" "$4" $((after - before)) <<'P'
import json, sys
path, name, mode, depth, block, ticks = sys.argv[1:]
text = open(path).read()
job = json.loads(text[text.index("{"):])["jobs"][0]["write" if "write" in mode else "read"]
cpu = int(ticks) * 10_000 / max(1, job["total_ios"])
print(f"{name:5} {mode:9} {block:>3} depth {depth:>2} {job['iops']:9.0f} op/s {cpu:6.2f} us of server CPU each", flush=True)
P
}
for round in $(seq "$rounds"); do
    for depth in $depths; do
        for mode in randread randwrite; do
            for name in fuse nbd; do run "$name" $mode "$depth" 4k; done
        done
    done
    for name in fuse nbd; do run "$name" read 1 1m; done
done
