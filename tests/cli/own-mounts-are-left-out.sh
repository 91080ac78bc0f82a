#!/usr/bin/env bash
# A backup leaves out this program's mounts and its pool, whichever way leads to them, and says so: they would grow with
# every backup. Paths inside of them are refused.
. "$(dirname "$0")/common.sh"
[ -e /dev/fuse ] || skip "/dev/fuse is missing"
mkdir -p "$dir/src/data" "$dir/src/mount"
for n in 1 2 3; do echo "$n" >"$dir/src/data/$n"; done
pool=$dir/src/pool mount=$dir/src/mount
export QUINTET_REPOSITORY=$pool
ln -s src "$dir/link"
new_pool
exits 0 q backup "$dir/src"
# has_three PATH: a backup of it, and what it would be, have the three files.
has_three() {
    exits 0 q backup "$1" --json
    [ "$(number total_files_processed)" -eq 3 ] || fail "$1: $(number total_files_processed) files"
    exits 0 q backup "$1" --dry-run --json
    [ "$(number total_files_processed)" -eq 3 ] || fail "$1: $(number total_files_processed) files in a dry run"
    exits 0 q backup "$1"
    says "the pool itself is not backed up: $pool"
}
for options in "" --read-only; do
    show $options
    for path in "$dir/src" "$dir/link"; do
        has_three "$path"
        says "this program's mount is not backed up: $mount"
    done
    exits 1 q backup "$dir/src/data" "$mount/snapshots"
    says "is in a mount of this program ($mount): .*quintet copy"
    unshow
done
exits 1 q backup "$pool/containers"
says "is the pool itself"
# One that no process serves any more: nothing can be asked of it, and nobody waits for it.
show --read-only
guard=$(pgrep -P "$server" -f mount-guard || true)
[ -z "$guard" ] || kill -9 "$guard"
kill_server
if mountpoint -q "$mount" || grep -q " $mount fuse.quintet" /proc/mounts; then
    has_three "$dir/src"
    says "this program's mount is not backed up: $mount"
    umount -l "$mount" || fusermount3 -uz "$mount"
fi
has_three "$dir/src"
sound
