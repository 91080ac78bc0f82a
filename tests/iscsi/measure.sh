#!/bin/bash
# Measures 4 KiB random reads and writes: this target, tgt over a file in memory, and our own NBD server
# over TCP, interleaved round by round, so that other load on the machine hits all alike. The same client
# (qemu-img bench, steps of a large odd number of blocks) for all three; iscsi-perf (random) for the two
# targets. Prints every run, then the medians of each peer's ratio, round by round.
#
# ROUNDS (default 5), REQUESTS (default 100000), DEPTHS (default "16"), PRIORITY (default none): a command
# such as "nice -n -15" for servers and clients alike, where others have the machine too.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
rounds=${ROUNDS:-5} requests=${REQUESTS:-100000} depths=${DEPTHS:-16} priority=${PRIORITY:-}
built=${CARGO_TARGET_DIR:-$here/../../target}/release/examples
dir=$(mktemp -d -p /dev/shm)
control=$((RANDOM % 1000 + 100))
finish() {
    tgtadm -C $control --op delete --mode system 2>/dev/null || true
    # tgtd does not end on a signal that it can catch while it has sessions.
    kill -9 "${pid[tgt]:-}" 2>/dev/null || true
    kill $(jobs -p) 2>/dev/null || true
    wait || true
    rm -rf "$dir"
}
trap finish EXIT
size=536870912
dd if=/dev/urandom of="$dir/file" bs=1M count=512 status=none
declare -A pid uri
$priority "$built/iscsi_memory" --size $size 127.0.0.1:0 >"$dir/ours" & pid[quintet]=$!
$priority "$built/nbd_memory" --size $size --tcp 127.0.0.1:0 >"$dir/nbd" & pid[nbd]=$!
port=$((RANDOM % 2000 + 20000))
$priority tgtd -f -C $control --iscsi portal=127.0.0.1:$port >/dev/null 2>&1 & pid[tgt]=$!
sleep 1
tgtadm -C $control --lld iscsi --op new --mode target --tid 1 -T iqn.2026-11.org.tgt:disk
tgtadm -C $control --lld iscsi --op new --mode logicalunit --tid 1 --lun 1 -b "$dir/file"
tgtadm -C $control --lld iscsi --op bind --mode target --tid 1 -I ALL
address() { sed -n 's/^ready Some(\(.*\))$/\1/p' "$1"; }
uri[quintet]=iscsi://$(address "$dir/ours")/iqn.2026-11.org.quintet:disk/0
uri[tgt]=iscsi://127.0.0.1:$port/iqn.2026-11.org.tgt:disk/1
uri[nbd]=nbd://$(address "$dir/nbd")/disk
for name in quintet nbd; do qemu-img convert -n -f raw -O raw "$dir/file" "${uri[$name]}"; done
ticks() { awk '{ print $14 + $15 }' "/proc/${pid[$1]}/stat"; }
report() { # server, client, mode, depth, operations, seconds, ticks
    awk -v OFS=" " -v n="$1" -v c="$2" -v m="$3" -v d="$4" -v o="$5" -v s="$6" -v t="$7" \
        'BEGIN { printf "%-8s %-10s %-9s depth %2d %9.0f op/s %6.2f us of server CPU each\n", n, c, m, d, o / s, t * 10000 / o }' |
        tee -a "$dir/all"
}
bench() { # server, mode, depth
    local write=
    [ "$2" = randread ] || write="-w --pattern=7"
    local before=$(ticks "$1")
    local seconds=$($priority qemu-img bench -f raw -t none -n $write -d "$3" -s 4096 -S $((4096 * 70001)) \
        -c "$requests" "${uri[$1]}" | sed -n 's/^Run completed in \(.*\) seconds.*/\1/p')
    report "$1" qemu-img "$2" "$3" "$requests" "$seconds" $(($(ticks "$1") - before))
}
perf() { # server, depth
    local before=$(ticks "$1")
    local speed=$($priority iscsi-perf -m "$2" -b 8 -t 3 -r "${uri[$1]}" 2>&1 | tr '\r' '\n' |
        sed -n 's/.*iops average \([0-9]*\).*/\1/p' | tail -1)
    report "$1" iscsi-perf randread "$2" $((speed * 3)) 3 $(($(ticks "$1") - before))
}
for round in $(seq "$rounds"); do
    for depth in $depths; do
        for name in quintet tgt; do perf $name "$depth"; done
        for mode in randread randwrite; do
            for name in quintet tgt nbd; do bench $name $mode "$depth"; done
        done
    done
done
python3 - "$dir/all" <<'P'
import collections, statistics, sys
runs = collections.defaultdict(lambda: collections.defaultdict(list))
for line in open(sys.argv[1]):
    word = line.split()
    runs[word[1], word[2], int(word[4])][word[0]].append((float(word[5]), float(word[7])))
for (client, mode, depth), servers in runs.items():
    ours = servers.pop("quintet")
    for name, theirs in servers.items():
        def ratio(field):
            return statistics.median(a[field] / b[field] for a, b in zip(ours, theirs) if b[field])
        median = statistics.median(a[0] for a in ours)
        print(f"{client:10} {mode:9} depth {depth:>2}: {median:7.0f} op/s, against {name:4} {ratio(0):5.2f}x speed {ratio(1):5.2f}x CPU")
P
