#!/bin/sh
# fio trims at random, then writes over four connections, flushes in between, and verifies.
. "$(dirname "$0")/common.sh"
requires fio
fio --enghelp=nbd >/dev/null 2>&1 || { echo "fio has no nbd engine"; exit 77; }
serve --size 67108864
fio --name=trims --ioengine=nbd --uri="$uri" --rw=randtrim --bs=4k --size=64m --io_size=16m \
    --iodepth=16 --output="$dir/log" || fail "$(tail -5 "$dir/log")"
# Each connection has its part of the disk.
fio --ioengine=nbd --uri="$uri" --rw=randwrite --bsrange=4k-64k --size=16m --offset_increment=16m \
    --numjobs=4 --iodepth=16 --verify=crc32c --verify_fatal=1 --fsync=64 --name=four \
    --output="$dir/log" || fail "$(tail -5 "$dir/log")"
