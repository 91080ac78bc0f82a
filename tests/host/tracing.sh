#!/usr/bin/env bash
# `quintet host defrag trace` on real file systems over loop devices: every request that fio makes is seen, by each way of
# reading and writing, and a run with the trace moves what was requested and nothing else. Needs root, eBPF and fio; says
# SKIPPED otherwise.
#   QUINTET=.../quintet MIGRATIONS_PROGRAM=.../migrations tests/host/tracing.sh [ext4|xfs|btrfs]...
# seconds: 600
. "$(dirname "$0")/filesystems.sh"
program=$MIGRATIONS_PROGRAM
in_memory
field() { sed -n "s/.*\"message_type\":\"summary\".*\"$1\":\([0-9]*\).*/\1/p" "$dir/json"; }

# trace OPTION... -- COMMAND...: the summary is in json then.
trace() {
    "$quintet" host defrag trace "$mnt" -o "$dir/trace" --force --json "$@" >"$dir/json" 2>"$dir/errors"
}

# seen FS NAME READS WRITES BYTES [TRACE OPTION] -- FIO OPTION...: 512 requests of 4 KiB to different places of 16 MiB.
# READS and WRITES are the numbers that must be seen, BYTES of how much of the file.
seen() {
    local fs=$1 name=$2 reads=$3 writes=$4 bytes=$5 options=()
    shift 5
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    trace ${options[@]+"${options[@]}"} -- fio --name=x --filename="$mnt/file" --size=16m --bs=4k --io_size=2m --randrepeat=1 --output-format=terse --fadvise_hint=0 "$@" ||
        { grep -q 'io_uring\|not supported' "$dir/errors" && skip "$fs, $name: fio cannot do it here" || wrong "$fs, $name: $(cat "$dir/errors")"; return; }
    [ "$(field lost)" = 0 ] || wrong "$fs, $name: requests were lost"
    [ "$(field reads)" = "$reads" ] && [ "$(field writes)" = "$writes" ] && [ "$(field requested_bytes)" = "$bytes" ] ||
        wrong "$fs, $name: expected $reads reads, $writes writes, $bytes bytes: $(cat "$dir/json")"
}

every_way() {
    local fs=$1 kib2048=2097152 apart
    head -c 16777216 /dev/urandom >"$mnt/file"
    # The workers of io_uring read in an order of their own, and a read that continues the one before it counts as the
    # window that is read ahead. So no two of these places are neighbours.
    apart=(--read_iolog="$dir/places")
    { printf 'fio version 2 iolog\n%s add\n%s open\n' "$mnt/file" "$mnt/file"
        seq 0 8192 16777215 | shuf --random-source=<(yes) -n 512 | sed "s|.*|$mnt/file read & 4096|"; } >"$dir/places"
    uncached "$mnt/file"
    seen "$fs" "read" 512 0 $kib2048 -- --rw=randread --ioengine=psync
    seen "$fs" "read to the byte" 512 0 $kib2048 --exact -- --rw=randread --ioengine=psync
    seen "$fs" "direct read" 512 0 $kib2048 -- --rw=randread --ioengine=psync --direct=1
    seen "$fs" "direct read to the byte" 512 0 $kib2048 --exact -- --rw=randread --ioengine=psync --direct=1
    seen "$fs" "libaio" 512 0 $kib2048 -- --rw=randread --ioengine=libaio --direct=1 --iodepth=8
    seen "$fs" "libaio, with system calls" 512 0 $kib2048 --exact -- --rw=randread --ioengine=libaio --direct=1 --iodepth=8
    seen "$fs" "io_uring" 512 0 $kib2048 -- "${apart[@]}" --ioengine=io_uring --iodepth=8
    seen "$fs" "io_uring, with system calls" 512 0 $kib2048 --exact -- "${apart[@]}" --ioengine=io_uring --iodepth=8
    seen "$fs" "direct io_uring" 512 0 $kib2048 -- --rw=randread --ioengine=io_uring --direct=1 --iodepth=8
    sync "$mnt/file"
    seen "$fs" "write to the byte" 0 512 $kib2048 --exact -- --rw=randwrite --ioengine=psync
    # Mapped reads are faults, and each is a window of 128 KiB: all 128 of them.
    uncached "$mnt/file"
    trace -- fio --name=x --filename="$mnt/file" --size=16m --bs=4k --io_size=2m --rw=randread --ioengine=mmap --output-format=terse || wrong "$fs, mapped: $(cat "$dir/errors")"
    [ "$(field reads)" -ge 128 ] && [ "$(field requested_bytes)" -ge 15000000 ] || wrong "$fs, mapped: $(cat "$dir/json")"
    # Buffered writes are seen when a clean folio becomes dirty.
    sync "$mnt/file"
    trace -- dd if=/dev/zero of="$mnt/file" bs=4k seek=100 count=64 conv=notrunc status=none
    [ "$(field writes)" -ge 1 ] && [ "$(field requested_bytes)" -ge 262144 ] || wrong "$fs, written: $(cat "$dir/json")"
    # So are writes by io_uring and to mappings. A folio has at most 2 MiB, so 16 MiB are eight or more.
    for engine in io_uring mmap; do
        sync "$mnt/file"
        trace -- fio --name=x --filename="$mnt/file" --size=16m --bs=4k --rw=randwrite --ioengine=$engine --output-format=terse ||
            { grep -q 'not supported' "$dir/errors" && skip "$fs, written by $engine: fio cannot do it here" || wrong "$fs, written by $engine: $(cat "$dir/errors")"; continue; }
        [ "$(field writes)" -ge 8 ] && [ "$(field requested_bytes)" -ge 16777216 ] && [ "$(field lost)" = 0 ] || wrong "$fs, written by $engine: $(cat "$dir/json")"
    done
}

# A tracer that is stopped while 600,000 reads are made has room for about 300,000: the rest is counted as lost.
overflow() {
    local fs=$1 reads lost
    cat "$mnt/file" >/dev/null
    trace -- sh -c 'kill -STOP $PPID
        fio --name=x --filename="$1" --size=16m --bs=4k --io_size=2400m --rw=randread --norandommap --ioengine=psync --fadvise_hint=0 --invalidate=0 --output-format=terse >/dev/null
        kill -CONT $PPID' sh "$mnt/file" || wrong "$fs, overflow: $(cat "$dir/errors")"
    reads=$(field reads) lost=$(field lost)
    echo "$fs: of 614,400 reads beside a stopped tracer, $reads recorded and $lost counted as lost"
    # Reads of one page one after another count once.
    [ "$lost" -gt 100000 ] && [ "$reads" -gt 100000 ] && [ $((reads + lost)) -ge 610000 ] && [ $((reads + lost)) -le 620000 ] || wrong "$fs: what was lost is not counted: $(cat "$dir/json")"
}

# A file of pieces of 4 KiB, of which some is read: a run moves that.
moved_by_heat() {
    local fs=$1 sums before
    rm "$mnt/file"
    "$program" fragment "$mnt/file" 4 || { wrong "$fs: no fragmented file"; return; }
    sync -f "$mnt"
    sums=$(cksum <"$mnt/file")
    # 128 KiB at 1 MiB three times, and 128 KiB at 2 MiB once; the second is not hot.
    trace -- sh -c 'for n in 1 2 3; do dd if="$1" of=/dev/null bs=128k skip=8 count=1 iflag=direct status=none; done
        dd if="$1" of=/dev/null bs=128k skip=16 count=1 iflag=direct status=none' sh "$mnt/file" || wrong "$fs: $(cat "$dir/errors")"
    grep -q '"ranges":2,' "$dir/json" || wrong "$fs, two ranges: $(cat "$dir/json")"
    "$quintet" host defrag analyse "$mnt/file" --trace "$dir/trace" --hot 50 --json >"$dir/json"
    before=$(field requests_before)
    [ "$(field broken_windows)" = 1 ] && [ "$(field broken_bytes)" = 131072 ] && [ "$before" -gt 3 ] && [ "$(field requests_after)" = 3 ] ||
        wrong "$fs, analysed: $(cat "$dir/json")"
    "$quintet" host defrag run "$mnt/file" --trace "$dir/trace" --hot 50 --svg "$dir/svg" --json >"$dir/json" || wrong "$fs, run: $(cat "$dir/json")"
    [ "$(field moved_bytes)" = 131072 ] || wrong "$fs, moved: $(cat "$dir/json")"
    grep -q 'before: .* pieces' "$dir/svg" && grep -q 'after: .* pieces' "$dir/svg" || wrong "$fs: no plot"
    "$quintet" host defrag analyse "$mnt/file" --trace "$dir/trace" --hot 100 --json >"$dir/json"
    [ "$(field broken_windows)" = 1 ] || wrong "$fs, the other range: $(cat "$dir/json")"
    [ "$sums" = "$(cksum <"$mnt/file")" ] || wrong "$fs: other bytes"
    # A limited rate: 8 times 128 KiB, read and written, at 1 MiB a second.
    local start=${EPOCHREALTIME/./}
    "$quintet" host defrag run "$mnt/file" --limit-bytes 1M --limit-rate 1M --json >"$dir/json" || wrong "$fs, slow run: $(cat "$dir/json")"
    local took=$((${EPOCHREALTIME/./} - start)) moved
    moved=$(field moved_bytes)
    [ "$moved" -gt 0 ] && [ "$took" -ge "$((moved * 9 / 10))" ] || wrong "$fs: moved $moved bytes in $took us at 1 MiB a second"
    # Another file system has other files; a damaged trace is refused.
    "$quintet" host defrag analyse "$dir" --trace "$dir/trace" 2>"$dir/errors" && wrong "$fs: used for another file system"
    grep -q 'another file system' "$dir/errors" || wrong "$fs: $(cat "$dir/errors")"
    printf '%b' "\\x$(printf %02x $(($(od -An -tu1 -j60 -N1 "$dir/trace") ^ 255)))" | dd of="$dir/trace" bs=1 seek=60 conv=notrunc status=none
    "$quintet" host defrag run "$mnt" --trace "$dir/trace" 2>"$dir/errors" && wrong "$fs: a damaged trace was used"
    grep -q 'record it again' "$dir/errors" || wrong "$fs: $(cat "$dir/errors")"
}

if [ "$(id -u)" -ne 0 ] || ! command -v fio >/dev/null; then
    skip "tracing: not root, or no fio"
    exit 0
fi
for fs in ${*:-ext4 xfs btrfs}; do
    fresh "$fs" || continue
    if ! trace -- true; then
        grep -q 'eBPF\|tracepoint\|BTF' "$dir/errors" && skip "$fs: $(cat "$dir/errors")" || wrong "$fs: $(cat "$dir/errors")"
    else
        every_way "$fs"
        overflow "$fs"
        moved_by_heat "$fs"
    fi
    umount "$mnt"
done
exit $failed
