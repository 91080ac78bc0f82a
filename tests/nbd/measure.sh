#!/bin/bash
# Measures 4 KiB random reads and writes at several depths, and a large copy, over a unix socket: this
# server and its peers (nbdkit's memory and file plugins, qemu-nbd), interleaved round by round, so that
# other load on the machine hits all alike. Prints every run, then the medians of each peer's ratio.
#
# ROUNDS (default 5), MS_EACH (default 2000), DEPTHS (default "1 16 32"), MODES (default "randread randwrite"),
# PRIORITY (default none): a command such as "nice -n -15" for servers and clients alike, where others
# have the machine too.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
rounds=${ROUNDS:-5} ms=${MS_EACH:-2000} priority=${PRIORITY:-} depths=${DEPTHS:-1 16 32} modes=${MODES:-randread randwrite}
server=${QUINTET_NBD_SERVER:-${CARGO_TARGET_DIR:-$here/../../target}/release/examples/nbd_memory}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
size=536870912
truncate -s $size "$dir/file" "$dir/image"
declare -A pid
$priority $server --size $size "$dir/quintet" >/dev/null & pid[quintet]=$!
$priority nbdkit -f -U "$dir/nbdkit-memory" memory $size & pid[nbdkit-memory]=$!
$priority nbdkit -f -U "$dir/nbdkit-file" file "$dir/file" & pid[nbdkit-file]=$!
$priority qemu-nbd --persistent --shared=0 --format=raw --cache=writeback --aio=io_uring --discard=unmap \
    --socket="$dir/qemu-nbd" "$dir/image" & pid[qemu-nbd]=$!
sleep 1
names="quintet nbdkit-memory nbdkit-file qemu-nbd"
uri() { echo "nbd+unix:///?socket=$dir/$1"; }
ticks() { awk '{ print $14 + $15 }' "/proc/${pid[$1]}/stat"; }
for name in $names; do
    fio --name=fill --ioengine=nbd --uri="$(uri $name)" --rw=write --bs=256k --iodepth=4 \
        --size=$size --output=/dev/null
done
run() { # name, mode, depth
    before=$(ticks "$1")
    $priority fio --name=run --ioengine=nbd --uri="$(uri "$1")" --rw="$2" --bs=4k --iodepth="$3" \
        --size=$size --runtime="${ms}ms" --time_based --output-format=json \
        --output="$dir/json" 2>/dev/null
    after=$(ticks "$1")
    python3 - "$dir/json" "$1" "$2" "$3" $((after - before)) <<'P' | tee -a "$dir/all"
import json, sys
path, name, mode, depth, ticks = sys.argv[1:]
text = open(path).read()
job = json.loads(text[text.index("{"):])["jobs"][0]["write" if "write" in mode else "read"]
cpu = int(ticks) * 10_000 / max(1, job["total_ios"])
p99 = job["clat_ns"]["percentile"]["99.000000"] / 1000
print(f"{name:14} {mode:9} depth {depth:>2} {job['iops']:9.0f} op/s {cpu:6.2f} us of server CPU each, p99 {p99:7.1f} us", flush=True)
P
}
copy() { # name
    start=$(date +%s%N)
    $priority nbdcopy --connections=1 "$(uri "$1")" null:
    echo "$1 nbdcopy depth 64 $((size * 1000 / ($(date +%s%N) - start))) MB/s 0 us of server CPU each, p99 0 us" |
        tee -a "$dir/all"
}
for round in $(seq "$rounds"); do
    for mode in $modes; do
        for depth in $depths; do
            for name in $names; do run "$name" "$mode" "$depth"; done
        done
    done
    for name in $names; do copy "$name"; done
done
python3 - "$dir/all" <<'P'
import collections, statistics, sys
runs = collections.defaultdict(lambda: collections.defaultdict(list))
for line in open(sys.argv[1]):
    word = line.split()
    runs[word[1], int(word[3])][word[0]].append((float(word[4]), float(word[6]), float(word[-2])))
for (mode, depth), servers in runs.items():
    ours = servers.pop("quintet")
    for name, theirs in servers.items():
        # Round by round, then the median.
        def ratio(field):
            pairs = [(a[field], b[field]) for a, b in zip(ours, theirs)]
            return statistics.median(a / b for a, b in pairs if b) if any(b for _, b in pairs) else 0
        print(f"{mode:9} depth {depth:>2} against {name:13} {ratio(0):5.2f}x speed {ratio(1):5.2f}x CPU {ratio(2):5.2f}x p99")
P
