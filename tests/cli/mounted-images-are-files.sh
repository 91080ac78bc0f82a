#!/usr/bin/env bash
# Images and streams are files of a mount; a file system in an image is mounted from there.
. "$(dirname "$0")/common.sh"
requires mkfs.ext4
real_tree "$dir/tree" 20
truncate -s 100M "$dir/disk.img"
mkfs.ext4 -q -F -d "$dir/tree" "$dir/disk.img"
new_pool
exits 0 q import "$dir/disk.img" disk
head -c 5000001 /dev/urandom >"$dir/stream"
q backup --stdin --stdin-filename dump.sql <"$dir/stream" >/dev/null || fail "backup --stdin"
show
image=$(echo "$mount"/snapshots/*/disk)
cmp "$image" "$dir/disk.img" || fail "the image differs"
dd if="$image" iflag=direct bs=1M status=none | cmp - "$dir/disk.img" || fail "past the page cache it differs"
cmp "$mount"/snapshots/latest/dump.sql "$dir/stream" || fail "the stream differs"
cp --sparse=auto "$image" "$dir/copy" && cmp "$dir/copy" "$dir/disk.img"
[ $(($(stat -c %b "$dir/copy") * 512)) -lt 100000000 ] || fail "the copy has no holes"
if command -v fio >/dev/null; then
    # Times have colons in them, which fio takes for a list.
    ln -s "$image" "$dir/image"
    fio --name=r --filename="$dir/image" --readonly --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=16 \
        --numjobs=2 --io_size=8m --size=100m --output="$dir/fio" || fail "fio: $(tail -n 5 "$dir/fio")"
fi
if [ "$(id -u)" -eq 0 ] && losetup -f >/dev/null 2>&1; then
    mkdir "$dir/inner"
    mounted=("$dir/inner" "${mounted[@]}")
    mount -o loop,ro "$image" "$dir/inner" || fail "mount -o loop,ro"
    diff -r --no-dereference "$dir/tree" "$dir/inner" --exclude lost+found >"$dir/diff" || fail "$(head -n 5 "$dir/diff")"
    umount "$dir/inner"
else
    echo "no loop device here: not mounted"
fi
unshow
