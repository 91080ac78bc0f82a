#!/usr/bin/env bash
# `quintet host scrub`: finds bytes that changed below the file system, and nothing else.
# seconds: 600
. "$(dirname "$0")/filesystems.sh"
on_a_disk
fail() { echo "FAILED: $*"; exit 1; }
export QUINTET_REPOSITORY=$dir/pool QUINTET_CACHE_DIR=$dir/cache
unset QUINTET_PASSWORD QUINTET_PASSWORD_FILE QUINTET_PASSWORD_COMMAND
"$QUINTET" init --no-encryption -q || fail "init"
backup() { "$QUINTET" backup -q "$@" || fail "backup $*"; }
# Sets `code`; JSON in $dir/json, messages in $dir/errors.
scrub() {
    "$QUINTET" host scrub --json "$@" >"$dir/json" 2>"$dir/errors"
    code=$?
}
says() { grep -q "$1" "$dir/json" || fail "$2: expected $1 in: $(cat "$dir/json" "$dir/errors")"; }
lacks() { ! grep -q "$1" "$dir/json" || fail "$2: unexpected $1 in: $(cat "$dir/json" "$dir/errors")"; }
number() { grep -o "\"$1\":[0-9]*" "$dir/json" | tail -n 1 | cut -d: -f2; }

# Without root: same, changed, deleted, new, hard links, holes, files that are not in a snapshot.
tree=$dir/tree
mkdir -p "$tree/sub"
head -c 3000000 /dev/urandom >"$tree/sub/same"
head -c 100000 /dev/urandom >"$tree/changes"
head -c 1000 /dev/urandom >"$tree/deleted"
: >"$tree/empty"
ln "$tree/sub/same" "$tree/linked"
truncate -s 300M "$tree/hole"
echo end >>"$tree/hole"
sync -f "$tree"
scrub "$tree"
[ $code -eq 1 ] && grep -q 'back it up first' "$dir/errors" || fail "without a snapshot: $code $(cat "$dir/errors")"
backup "$tree"
scrub "$tree"
[ $code -eq 0 ] || fail "a sound tree: exit code $code $(cat "$dir/json" "$dir/errors")"
says '"files_same":5,"files_changed":0,"files_rotten":0' "a sound tree"
says '"hard_links":1' "a sound tree"
[ "$(number bytes_in_holes)" -gt 299000000 ] || [ "$(number bytes_read)" -gt 300000000 ] || fail "holes: $(cat "$dir/json")"
sleep 0.02
printf x | dd of="$tree/changes" bs=1 seek=5 conv=notrunc status=none
touch "$tree/empty"
rm "$tree/deleted"
mkdir "$tree/newdir"
echo new >"$tree/new"
echo new >"$tree/newdir/below"
sync -f "$tree"
scrub "$tree"
[ $code -eq 0 ] || fail "changes: exit code $code $(cat "$dir/errors")"
says '"files_same":2,"files_changed":2,"files_rotten":0,"files_unreadable":0,"files_new":1,"directories_new":1,"files_deleted":1' changes
scrub "$tree/sub/same"
says '"files_same":1' "one file"
scrub "$tree" --exclude sub
says '"files_same":2,"files_changed":2' "without sub: the other name is compared"
"$QUINTET" host scrub "$tree" >"$dir/text" 2>&1 || fail "as text: $(cat "$dir/text")"
grep -q '^no damage found' "$dir/text" || fail "$(cat "$dir/text")"

# A rate limit, and a kill: the next run goes on, and ends with the same totals.
head -c 200000000 /dev/urandom >"$tree/large"
sync -f "$tree"
backup "$tree"
"$QUINTET" host scrub "$tree/large" --limit-rate 20M --json >"$dir/json" 2>&1 &
running=$!
# A record that is being written has the process in its name, after a dot.
is_recorded() { compgen -G "$dir/cache/host-scrub/*" | grep -qv '\.[0-9]*$'; }
wait_until is_recorded
kill -9 $running
wait $running 2>/dev/null
ls "$dir"/cache/host-scrub/* >/dev/null || fail "no progress was recorded"
"$QUINTET" host scrub "$tree/large" --limit-rate 20M --json >"$dir/json" 2>"$dir/errors" &
running=$!
wait_until grep -q '"continued":true' "$dir/json"
# It goes on.
has_read() { [ "$(sed -n 's/^rchar: //p' "/proc/$running/io")" -ge 20000000 ]; }
wait_until has_read
kill -INT $running
wait $running
[ $? -eq 130 ] || fail "an interrupted scrub does not say so"
says '"continued":true' "after a kill"
backup "$tree"
scrub "$tree/large"
[ $code -eq 0 ] || fail "continued: $code $(cat "$dir/errors")"
says '"continued":true.*"newer_snapshot"' "after an interrupt, with a newer snapshot"
says '"files_same":1' "continued"
[ "$(number bytes_read)" -lt 340000000 ] || fail "everything was read again: $(cat "$dir/json")"
ls "$dir"/cache/host-scrub/* >/dev/null 2>&1 && fail "a complete scrub left its progress"
scrub "$tree/large" --restart
says '"continued":false' "begun anew"
scrub "$tree/large" --background
[ $code -eq 0 ] || fail "in the background: $code $(cat "$dir/errors")"

# Memory is no medium.
shm=$top/memory
mkdir "$shm"
if mount -t tmpfs quintet-host "$shm" 2>/dev/null; then
    head -c 50000 /dev/urandom >"$shm/file"
    backup "$shm"
    scrub "$shm"
    umount "$shm"
    says '"bytes_read":0,.*"bytes_unproven":50000' "tmpfs"
    says '"fallback_reason"' "tmpfs"
else
    echo "SKIPPED: cannot mount a tmpfs here: what a scrub says of memory"
fi

# Files of others: the rest is compared.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    cp "$QUINTET" "$dir/quintet"
    mkdir "$dir/his" "$dir/hiscache"
    head -c 50000 /dev/urandom >"$dir/his/open"
    head -c 50000 /dev/urandom >"$dir/his/closed"
    chmod 600 "$dir/his/closed"
    chmod 644 "$dir/his/open"
    backup "$dir/his"
    sync -f "$dir"
    chmod 755 "$dir"
    chmod 711 "$top"
    chown -R 65534 "$dir/pool" "$dir/hiscache"
    setpriv --reuid 65534 --regid 65534 --clear-groups env QUINTET_CACHE_DIR="$dir/hiscache" \
        "$dir/quintet" host scrub "$dir/his" --json >"$dir/json" 2>"$dir/errors"
    code=$?
    chown -R 0 "$dir/pool"
    [ $code -eq 3 ] || fail "files of others: exit code $code $(cat "$dir/json" "$dir/errors")"
    says '"files_same":1,.*"files_failed":1' "files of others"
    says 'fallback_reason.*eBPF is not permitted' "files of others"
else
    echo "SKIPPED: not root, or no setpriv: what other users can scrub"
fi

if [ "$(id -u)" -ne 0 ]; then
    echo "SKIPPED: not root: bytes that change below a file system, and what others read meanwhile"
    exit 0
fi

# Finds bytes in an image and replaces them: below the file system and below its page cache.
flip() { # IMAGE TEXT REPLACEMENT
    python3 - "$@" <<'PYTHON'
import mmap, sys
image, text, replacement = sys.argv[1], sys.argv[2].encode(), sys.argv[3].encode()
assert len(text) == len(replacement)
with open(image, "r+b") as file, mmap.mmap(file.fileno(), 0) as bytes_:
    at, found = bytes_.find(text), 0
    while at >= 0:
        bytes_[at:at + len(text)] = replacement
        bytes_.flush()
        found += 1
        at = bytes_.find(text, at + 1)
    sys.exit(0 if found else 1)
PYTHON
}
on_device() { # KIND MKFS-COMMAND MOUNT-OPTIONS COMPRESSED
    local kind=$1 make=$2 options=$3 at=$dir/$1-$4 image=$dir/$1-$4.img
    command -v "${make%% *}" >/dev/null || { echo "SKIPPED: no ${make%% *}"; return; }
    truncate -s 400M "$image"
    $make "$image" >"$dir/log" 2>&1 || { echo "SKIPPED: $make: $(tail -n 1 "$dir/log")"; return; }
    mkdir "$at"
    mount -o "loop$options" "$image" "$at" 2>"$dir/log" || { echo "SKIPPED: $kind cannot be mounted: $(cat "$dir/log")"; return; }
    mkdir "$at/tree"
    # Compressible, but the text that is replaced lies in the clear where nothing is compressed.
    python3 - "$at/tree" <<'PYTHON'
import random, sys
dice = random.Random(1)
def write(name, size, at, text):
    bytes_ = bytearray(dice.randbytes(size))
    bytes_[at:at + len(text)] = text
    open(f"{sys.argv[1]}/{name}", "wb").write(bytes_)
write("rots", 5_000_000, 1_234_567, b"GOOD-BYTES-ROT")
write("changes", 5_000_000, 2_000_000, b"GOOD-BYTES-CHG")
write("same", 5_000_000, 0, b"")
open(f"{sys.argv[1]}/soft", "wb").write(b"compressible " * 200_000)
PYTHON
    sync -f "$at"
    backup "$at/tree"
    scrub "$at/tree"
    [ $code -eq 0 ] || fail "$kind: sound: $code $(cat "$dir/json" "$dir/errors")"
    says '"files_same":4' "$kind: sound"
    says '"bytes_unproven":0' "$kind: sound"
    [ "$(number bytes_read)" -eq 17600000 ] || fail "$kind: not all was read from the disk: $(cat "$dir/json")"
    # The files are in memory as they were, so the change below is seen by direct reads only.
    cat "$at"/tree/* >/dev/null
    scrub "$at/tree"
    [ "$(number bytes_read)" -eq 17600000 ] || fail "$kind: bytes in memory were taken for bytes of the disk: $(cat "$dir/json")"
    "$QUINTET" host cached "$at/tree" --json | grep -q '"message_type":"summary","files":4,"bytes":17600000,"cached_bytes":176' ||
        fail "$kind: what was in memory is not: $("$QUINTET" host cached "$at/tree")"
    [ "$4" = plain ] || return 0
    flip "$image" GOOD-BYTES-ROT gOOD-BYTES-R0t || { echo "SKIPPED: $kind: the bytes are not found on the device"; return; }
    flip "$image" GOOD-BYTES-CHG gOOD-BYTES-CHG
    touch "$at/tree/changes"
    sync -f "$at"
    scrub "$at/tree"
    [ $code -eq 21 ] || fail "$kind: rotten: $code $(cat "$dir/json" "$dir/errors")"
    says '"files_same":2,"files_changed":1' "$kind: rotten"
    if [ "$kind" = btrfs ]; then
        # Its own checksums refuse the block.
        says "\"path\":\"$at/tree/rots\",\"rotten\":\[\],\"unreadable\":\[{\"offset\":$((1234567 / 4096 * 4096))" "$kind: rotten"
    else
        says "\"path\":\"$at/tree/rots\",\"rotten\":\[{\"offset\":1234567,\"bytes\":14}\],\"unreadable\":\[\]" "$kind: rotten"
    fi
    lacks "tree/changes\"" "$kind: rotten"
    cmp -s <(dd if="$at/tree/rots" bs=1 skip=1234567 count=14 status=none) <(printf GOOD-BYTES-ROT) ||
        echo "SKIPPED: $kind: the page cache had dropped the file: not seen that a scrub reads past it"
    # What others have just read is not read again.
    if "$QUINTET" host doctor "$at" | grep -q '^privilege .*works'; then
        # On a busy machine it may have read the files itself before it is stopped. Then this says nothing: again.
        for _ in $(seq 20); do
            uncached "$at"/tree/*
            : >"$dir/json"
            "$QUINTET" host scrub "$at/tree" --limit-rate 2M --json >"$dir/json" 2>"$dir/errors" &
            local running=$!
            until grep -q host_scrub_begin "$dir/json" || ! kill -0 $running; do :; done 2>/dev/null
            kill -STOP $running
            cat "$at/tree/same" "$at/tree/soft" >/dev/null
            kill -CONT $running
            wait $running
            ! grep -q fallback_reason "$dir/json" && [ "$(number bytes_read_by_others)" -lt 5000000 ] || break
        done
        if grep -q fallback_reason "$dir/json"; then
            echo "SKIPPED: $kind: no page events: $(grep -o 'fallback_reason[^,]*' "$dir/json")"
        else
            [ "$(number bytes_read_by_others)" -ge 5000000 ] || fail "$kind: what others read was read again: $(cat "$dir/json" "$dir/errors")"
            says '"files_same":2,"files_changed":1' "$kind: beside a reader"
        fi
    else
        echo "SKIPPED: $kind: no page events: what others read meanwhile"
    fi
}
on_device ext4 "mkfs.ext4 -q -F" "" plain
on_device xfs "mkfs.xfs -q -f" "" plain
on_device btrfs "mkfs.btrfs -q -f" "" plain
on_device btrfs "mkfs.btrfs -q -f" ",compress-force=zstd" compressed

# A disk that returns errors: the file below the loop device ends in the middle of a file.
failing_disk() {
    local at=$dir/eio image=$dir/eio.img loop first last name
    truncate -s 100M "$image"
    mkfs.ext4 -q -F -b 4096 -O ^has_journal "$image" 2>/dev/null || { echo "SKIPPED: failing disk: mkfs.ext4 failed"; return; }
    # With buffered I/O the loop device returns zeroes there.
    loop=$(losetup --show -f --direct-io=on "$image" 2>/dev/null) || { echo "SKIPPED: failing disk: no loop device with direct I/O here"; return; }
    mkdir "$at"
    mount -o noatime "$loop" "$at" || { losetup -d "$loop"; fail "failing disk: no mount"; }
    # From here on the mount keeps it.
    losetup -d "$loop"
    mkdir "$at/tree"
    for name in first last; do head -c 4000000 /dev/urandom >"$at/tree/$name"; sync -f "$at"; done
    backup "$at/tree"
    start_of() { filefrag -b4096 -v "$1" | sed -n 's/^ *0: *0\.\. *[0-9]*: *\([0-9]*\)\.\..*/\1/p'; }
    name=last first=$(start_of "$at/tree/first") last=$(start_of "$at/tree/last")
    if [ "${first:-0}" -gt "${last:-0}" ]; then name=first last=$first; fi
    truncate -s $(((last + 100) * 4096)) "$image"
    uncached "$at"/tree/*
    scrub "$at/tree"
    [ $code -eq 21 ] || fail "failing disk: $code $(cat "$dir/json" "$dir/errors")"
    says '"files_same":1,"files_changed":0,"files_rotten":0,"files_unreadable":1' "failing disk"
    says "\"path\":\"$at/tree/$name\",\"rotten\":\[\],\"unreadable\":\[{\"offset\":409600,\"bytes\":3590400}\]" "failing disk"
}
failing_disk
exit $failed
