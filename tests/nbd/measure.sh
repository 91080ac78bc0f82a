#!/bin/bash
# Measures 4 KiB random reads and writes and large copies over a unix socket: this server and nbdkit's
# memory and file plugins, interleaved, so that other load on the machine hits all alike.
# Prints for each run: operations per second, and CPU microseconds of the server per operation.
#
# ROUNDS (default 3), SECONDS_EACH (default 4), DEPTHS (default "1 32").
set -eu
here=$(cd "$(dirname "$0")" && pwd)
rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-4} depths=${DEPTHS:-1 32}
server=${QUINTET_NBD_SERVER:-${CARGO_TARGET_DIR:-$here/../../target}/release/examples/nbd_memory}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
size=1073741824
truncate -s $size "$dir/file"
declare -A pid
$server --size $size "$dir/quintet" >/dev/null & pid[quintet]=$!
nbdkit -f -U "$dir/nbdkit-memory" memory $size & pid[nbdkit-memory]=$!
nbdkit -f -U "$dir/nbdkit-file" file "$dir/file" & pid[nbdkit-file]=$!
sleep 1
names="quintet nbdkit-memory nbdkit-file"
uri() { echo "nbd+unix:///?socket=$dir/$1"; }
ticks() { awk '{ print $14 + $15 }' "/proc/${pid[$1]}/stat"; }
for name in $names; do
    fio --name=fill --ioengine=nbd --uri="$(uri $name)" --rw=write --bs=256k --iodepth=4 \
        --size=$size --output=/dev/null
done
run() { # name, mode, depth
    before=$(ticks "$1")
    fio --name=run --ioengine=nbd --uri="$(uri "$1")" --rw="$2" --bs=4k --iodepth="$3" \
        --size=$size --runtime="$seconds" --time_based --output-format=json \
        --output="$dir/json" 2>/dev/null
    after=$(ticks "$1")
    python3 - "$dir/json" "$1" "$2" "$3" $((after - before)) <<'P'
import json, sys
path, name, mode, depth, ticks = sys.argv[1:]
text = open(path).read()
job = json.loads(text[text.index("{"):])["jobs"][0]["write" if "write" in mode else "read"]
cpu = int(ticks) * 10_000 / max(1, job["total_ios"])
print(f"{name:14} {mode:9} depth {depth:>2} {job['iops']:9.0f} op/s {cpu:6.2f} us of server CPU each", flush=True)
P
}
for round in $(seq "$rounds"); do
    for mode in randread randwrite; do
        for depth in $depths; do
            for name in $names; do run "$name" $mode "$depth"; done
        done
    done
    for name in $names; do
        start=$(date +%s%N)
        nbdcopy --connections=1 "$(uri "$name")" null:
        echo "$name nbdcopy $((size * 1000 / ($(date +%s%N) - start))) MB/s"
    done
done
