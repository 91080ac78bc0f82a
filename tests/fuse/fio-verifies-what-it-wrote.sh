#!/usr/bin/env bash
# Random writes with checksums, read again: past the page cache and through it, several at once.
. "$(dirname "$0")/common.sh"
requires fio
show $((64 << 20))
for direct in 0 1; do
    (cd "$dir" && fio --name=v --filename="$disk" --size=64m --rw=randwrite --bsrange=512-64k --bs_unaligned=$((1 - direct)) \
        --direct=$direct --ioengine=libaio --iodepth=16 --io_size=32m --verify=crc32c --verify_fatal=1 --do_verify=1 \
        --end_fsync=1 --randrepeat=1 --output="$dir/fio") || fail "direct $direct: $(tail -n 20 "$dir/fio")"
done
(cd "$dir" && fio --filename="$disk" --size=16m --rw=randrw --bs=4k --direct=1 --ioengine=psync --numjobs=4 \
    --offset_increment=16m --io_size=8m --verify=crc32c --verify_fatal=1 --name=jobs --output="$dir/fio") ||
    fail "four jobs: $(tail -n 20 "$dir/fio")"
unshow
