#!/bin/sh
# iscsi-test-cu of libiscsi, scored: the tests that need physical blocks of several logical ones, or a write-protected
# disk.
. "$(dirname "$0")/common.sh"
requires iscsi-test-cu python3
serve --size 134217728 --physical 4096
for test in CompareAndWrite.InvalidDataOutSize WriteSame10.UnmapUnaligned WriteSame10.InvalidDataOutSize \
    WriteSame16.UnmapUnaligned WriteSame16.InvalidDataOutSize; do
    conforms ALL.$test -d "$uri"
done
kill "$server"
wait "$server" || true
serve --size 134217728 --read-only
conforms ALL.ReadOnly -d "$uri"
