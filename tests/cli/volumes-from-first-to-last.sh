#!/usr/bin/env bash
# A volume's life, with a server and without one: created, cloned, written, frozen, put back, resized,
# deleted; its snapshots are snapshots of the pool like all others.
. "$(dirname "$0")/common.sh"
requires qemu-io qemu-img
new_pool
noise "$dir/image" 5
exits 0 q import "$dir/image" disk
running=
# on VOLUME COMMAND...: what qemu-io does with it, through the server that runs or one for this alone.
on() {
    local volume=$1 command arguments=()
    shift
    [ -n "$running" ] || start_server --nbd-socket "$dir/nbd"
    for command; do arguments+=(-c "$command"); done
    qemu-io -f raw "nbd+unix:///$volume?socket=$dir/nbd" "${arguments[@]}" >"$dir/io" 2>&1 || true
    [ -n "$running" ] || stop_server
    ! grep -qi 'fail\|error\|cannot' "$dir/io" || fail "$volume: $(cat "$dir/io")"
}
listed() {
    exits 0 q volume list --json
    grep '"message_type":"volume"' "$dir/out" | grep "\"name\":\"$1\"" | matches "$2" ||
        fail "no $1 with $2: $(cat "$dir/out")"
}
life() {
    exits 0 q volume create empty --size 3T --chunk-size 64K
    listed empty '"size_bytes":3298534883328,"chunk_bytes":65536'
    exits 1 q volume create empty --size 1G
    says 'exists'
    exits 1 q volume create other --size 1G --chunk-size 2K
    exits 1 q volume create other --size 1G --chunk-size 128K
    exits 1 q volume create other --size 1G --chunk-size 12K
    exits 1 q volume create other --size 0
    exits 1 q volume create other --size 8E
    exits 0 q volume create huge --size 7E --chunk-size 4K
    on huge 'write -P 8 6E 64k' flush 'read -P 8 6E 64k' 'read -P 0 3E 1M'
    exits 0 q volume snapshot huge@a
    exits 0 q volume resize huge 100 --shrink
    exits 0 q volume rollback huge@a
    on huge 'read -P 8 6E 64k'
    exits 0 q volume delete huge
    exits 0 q forget huge@a
    exits 1 q volume create a@b --size 1G
    exits 0 q volume clone disk web
    listed web '"size_bytes":5242880,"chunk_bytes":16384'
    exits 1 q volume clone nothing web2
    says 'no volume "nothing" either'
    on web 'write -P 1 0 64k' 'write -P 2 1M 4k' flush
    exits 0 q volume snapshot web@one
    exits 1 q volume snapshot web@one
    exits 1 q volume snapshot web@a@b
    exits 1 q volume snapshot nothing@one
    on web 'write -P 3 0 128k' 'discard 1M 64k' flush
    # A clone of what it is now, and of what it was.
    exits 0 q volume clone web now
    exits 0 q volume clone web@one then
    listed then '"origin":"web@one"'
    on now 'read -P 3 0 128k' 'read -P 0 1M 64k' 'write -P 9 0 4k'
    on then 'read -P 1 0 64k' 'read -P 2 1M 4k'
    on web 'read -P 3 0 128k'
    # Its snapshots are listed with all others, and nothing but their own removal removes them.
    listed web '"snapshots":1'
    exits 0 q snapshots
    says 'volume web@one'
    exits 0 q volume rollback web@one --dry-run
    says 'would be rolled back'
    on web 'read -P 3 0 128k'
    exits 1 q volume rollback web@two
    exits 0 q volume rollback web@one
    on web 'read -P 1 0 64k' 'read -P 2 1M 4k'
    # Larger by zeroes; smaller only when it is meant.
    exits 0 q volume resize web 6M
    on web 'read -P 0 5M 1M' 'write -P 4 5M 1M' flush
    exits 1 q volume resize web 1M
    says 'give --shrink'
    exits 0 q volume resize web 1M --shrink --dry-run
    exits 0 q volume resize web 1M --shrink
    exits 0 q volume resize web 6M
    on web 'read -P 1 0 64k' 'read -P 0 1M 5M'
    # Back to the snapshot's size, too.
    exits 0 q volume rollback web@one
    listed web '"size_bytes":5242880'
    exits 1 q volume delete web@one
    says 'quintet forget'
    exits 0 q volume delete web --dry-run
    listed web .
    for name in web now then empty; do exits 0 q volume delete $name; done
    exits 1 q volume delete web
    exits 0 q volume list
    says '^0 volumes'
    # The snapshot is still there, for clones.
    exits 0 q volume clone web@one again
    on again 'read -P 1 0 64k' 'read -P 2 1M 4k'
    exits 0 q volume delete again
    exits 0 q forget web@one
    exits 1 q volume clone web@one again
    [ "$(snapshots)" -eq 1 ] || fail "$(snapshots) snapshots, expected the image's"
    exits 0 q export --force disk "$dir/back"
    cmp "$dir/image" "$dir/back"
}
life
sound
start_server --nbd-socket "$dir/nbd"
running=1
life
running=
stop_server
sound
