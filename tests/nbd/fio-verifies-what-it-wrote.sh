#!/bin/sh
# fio writes at random with 32 requests under way and verifies every block.
. "$(dirname "$0")/common.sh"
requires fio
fio --enghelp=nbd >/dev/null 2>&1 || { echo "fio has no nbd engine"; exit 77; }
serve --size 67108864
fio --name=verify --ioengine=nbd --uri="$uri" --rw=randwrite --bsrange=512-128k --size=64m \
    --iodepth=32 --verify=crc32c --verify_fatal=1 --output="$dir/log" ||
    fail "$(tail -5 "$dir/log")"
