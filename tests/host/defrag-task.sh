#!/usr/bin/env bash
# `quintet host defrag run` as a maintenance task, on real file systems over loop devices: what is in memory is moved first
# and not read again, events change the order of a run in progress, --background waits for others, and `status` tells a
# run in progress from a finished, stopped and killed one. Needs root; says SKIPPED otherwise.
#   QUINTET=.../quintet MIGRATIONS_PROGRAM=.../migrations tests/host/defrag-task.sh [ext4|xfs|btrfs]...
# seconds: 600
. "$(dirname "$0")/filesystems.sh"
program=$MIGRATIONS_PROGRAM
in_memory
export STATE_DIRECTORY=$dir/state

# prepared FS: an empty one at $mnt; $device is what it is mounted from.
prepared() {
    fresh "$1" 600M && device=$(basename "$(findmnt -n -o SOURCE "$mnt")")
}

# Bytes that the device has read.
reads() {
    sync -f "$mnt"
    local fields
    read -ra fields <"/sys/block/$device/stat"
    echo $((fields[2] * 512))
}
# Nothing of the file is in memory, and the device has all.
cold() { sync -f "$mnt"; uncached "$1"; }
pieces() { "$quintet" host defrag analyse "$1" --json | sed -n 's/.*"summary","files":[0-9]*,"failed":[0-9]*,"pieces":\([0-9]*\).*/\1/p'; }
field() { sed -n "s/.*\"message_type\":\"$1\".*\"$2\":\"\?\([a-z0-9]*\).*/\1/p" "$dir/json"; }
status() { "$quintet" host defrag status "$@" --json >"$dir/json"; }

# The second half of a file of 32 MiB is in memory. A run moves half of it, then memory is emptied, and another run moves
# the rest. Sets `read`, and `found`: bytes that the first run found in memory.
in_two_runs() {
    local fs=$1 order=$2 sums before
    prepared "$fs" || return 1
    "$program" fragment "$mnt/file" 32 || { wrong "$fs: no fragmented file"; umount "$mnt"; return 1; }
    sums=$(cksum <"$mnt/file")
    cold "$mnt/file"
    dd if="$mnt/file" of=/dev/null bs=1M skip=16 status=none
    before=$(reads)
    "$quintet" host defrag run "$mnt/file" --order="$order" --limit-bytes 16M --json >"$dir/json" || wrong "$fs: exit code $?"
    # A batch of a step may not fit into the limit any more.
    [ "$(field summary moved_bytes)" -gt 12000000 ] || wrong "$fs, $order: $(cat "$dir/json")"
    found=$(field summary bytes_found_in_memory)
    cold "$mnt/file"
    "$quintet" host defrag run "$mnt/file" --order="$order" --json >"$dir/json" || wrong "$fs: exit code $?"
    read=$(($(reads) - before))
    cold "$mnt/file"
    [ "$sums" = "$(cksum <"$mnt/file")" ] || wrong "$fs, $order: other bytes"
    [ "$(pieces "$mnt/file")" -le 40 ] || wrong "$fs, $order: $(pieces "$mnt/file") pieces"
    umount "$mnt"
}

cached_first() {
    local fs=$1 in_tree of_tree
    in_two_runs "$fs" tree || return
    in_tree=$read of_tree=$found
    in_two_runs "$fs" cached || return
    # Read-ahead brings some of it in before its step asks.
    echo "$fs: half of 32 MiB in memory; the device read $((in_tree >> 10)) KiB in the order of the tree, $((read >> 10)) KiB with what is in memory first"
    [ "$found" -gt 12000000 ] && [ "$of_tree" -lt 8400000 ] || wrong "$fs: the first run found $found bytes in memory, $of_tree in the order of the tree"
    # The difference is the half that was in memory: 16 MiB, less read-ahead across the middle. xfs and btrfs drop the pages of
    # what they exchange, and the run reads them anew.
    [ "$fs" != ext4 ] || [ $((in_tree - read)) -ge $((14 << 20)) ] || wrong "$fs: what is in memory is read again"
}

# A file that comes into memory while a run moves others is moved next. Without events it would be the last one.
events_change_the_order() {
    local fs=$1 run before now
    prepared "$fs" || return
    mkdir "$mnt/a" "$mnt/z"
    "$program" fragment "$mnt/a/file" 64 && "$program" fragment "$mnt/z/file" 4 || { wrong "$fs: no fragmented files"; umount "$mnt"; return; }
    before=$(pieces "$mnt/z/file")
    cold "$mnt/a/file"
    cold "$mnt/z/file"
    "$quintet" host defrag run "$mnt" --limit-rate 6M -v >"$dir/text" 2>"$dir/errors" &
    run=$!
    while kill -0 "$run" 2>/dev/null; do
        dd of="$mnt/z/file" oflag=nocache conv=notrunc,fdatasync count=0 status=none
        cat "$mnt/z/file" >/dev/null
        sleep 0.5
        now=$(pieces "$mnt/z/file")
        [ "$now" -lt $((before / 4)) ] && break
    done
    kill -INT "$run" 2>/dev/null
    wait "$run"
    if grep -q 'was not seen' "$dir/errors"; then
        skip "$fs: no events: $(grep 'was not seen' "$dir/errors")"
    else
        local left
        left=$(pieces "$mnt/a/file")
        echo "$fs: $before pieces of the last file, then $now; $left of the first"
        [ "$now" -lt $((before / 4)) ] && [ "$left" -gt 4000 ] || wrong "$fs: what came into memory was not moved first: $(cat "$dir/text" "$dir/errors")"
        status "$mnt"
        [ "$(field host_defrag_status state)" = stopped ] || wrong "$fs: $(cat "$dir/json")"
    fi
    umount "$mnt"
}

is_moving() {
    status "$mnt"
    grep -q '"state":"running".*"moved_bytes":[1-9]' "$dir/json"
}

states() {
    local fs=$1 run
    prepared "$fs" || return
    status "$mnt"
    [ "$(field host_defrag_status state)" != running ] || wrong "$fs: no run yet: $(cat "$dir/json")"
    "$program" fragment "$mnt/file" 32 || { wrong "$fs: no fragmented file"; umount "$mnt"; return; }
    "$quintet" host defrag run "$mnt" --limit-rate 4M >/dev/null 2>"$dir/errors" &
    run=$!
    wait_until is_moving
    grep -q "\"state\":\"running\",\"process\":$run,.*\"moved_bytes\":[1-9]" "$dir/json" || wrong "$fs: the run is not shown: $(cat "$dir/json")"
    "$quintet" host defrag run "$mnt" --limit-bytes 0 2>&1 | grep -q 'another run of the same path' || wrong "$fs: two runs share a record"
    status "$mnt"
    [ "$(field host_defrag_status state)" = running ] || wrong "$fs: the other run took the record: $(cat "$dir/json")"
    kill -9 "$run"
    wait "$run" 2>/dev/null
    status "$mnt"
    [ "$(field host_defrag_status state)" = killed ] || wrong "$fs: killed: $(cat "$dir/json")"
    "$quintet" host defrag status "$mnt" | grep -q 'was killed' || wrong "$fs: the text does not say that it was killed"
    "$quintet" host defrag run "$mnt" >/dev/null || wrong "$fs: exit code $?"
    status "$mnt"
    [ "$(field host_defrag_status state)" = finished ] || wrong "$fs: finished: $(cat "$dir/json")"
    umount "$mnt"
}

# Beside reads of others, a run waits longer than alone. It looks for them before each 128 KiB that it reads, and the file
# is as it was.
others_read() { [ "$(reads)" -gt "$before" ]; }
nobody_reads() { ! pgrep -f "dd if=$mnt/other "; }
background() {
    local fs=$1 alone beside run sums looks before
    for who in alone beside; do
        prepared "$fs" || return
        "$program" fragment "$mnt/file" 32 && head -c 64M /dev/zero >"$mnt/other" || { wrong "$fs: no files"; umount "$mnt"; return; }
        sums=$(cksum <"$mnt/file")
        cold "$mnt/file"
        if [ "$who" = beside ]; then
            while dd if="$mnt/other" of=/dev/null iflag=direct bs=64k status=none; do :; done 2>/dev/null &
            run=$!
            before=$(reads)
            wait_until others_read
        fi
        "$quintet" host defrag run "$mnt/file" --background -v >"$dir/text" 2>&1 || wrong "$fs: exit code $?"
        # The last of its reads may be under way.
        [ "$who" = alone ] || { kill "$run"; wait "$run"; wait_until nobody_reads; } 2>/dev/null
        declare "$who=$(sed -n 's/.*waited \([0-9.]*\) s.*/\1/p' "$dir/text")"
        looks=$(sed -n 's/.*looked for others \([0-9]*\) times.*/\1/p' "$dir/text")
        [ "$looks" -ge $((32 << 20 >> 17)) ] || wrong "$fs: a run in the background looked for others $looks times only"
        [ "$(pieces "$mnt/file")" -le 40 ] || wrong "$fs, background: $(pieces "$mnt/file") pieces"
        cold "$mnt/file"
        [ "$sums" = "$(cksum <"$mnt/file")" ] || wrong "$fs, background: other bytes"
        umount "$mnt"
    done
    echo "$fs: a run in the background waited $alone s alone, $beside s beside reads, and looked for others $looks times"
    awk "BEGIN { exit !($beside > $alone) }" || wrong "$fs: a run in the background does not wait for others"
}

if [ "$(id -u)" != 0 ]; then
    skip "moving extents as a task: needs root"
    exit 0
fi
parts=${PARTS:-cached_first events_change_the_order states background}
for fs in ${*:-ext4 xfs btrfs}; do
    for part in $parts; do "$part" "$fs"; done
done
exit $failed
