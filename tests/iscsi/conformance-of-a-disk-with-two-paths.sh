#!/bin/sh
# iscsi-test-cu of libiscsi, all tests of its family ALL, scored: blocks of 512 bytes, two paths.
# seconds: 900
. "$(dirname "$0")/common.sh"
requires iscsi-test-cu python3
serve --size 134217728
conforms ALL -d "$uri" "$uri"
