#!/bin/sh
# iscsi-test-cu of libiscsi, all tests of its family ALL, scored: blocks of 4096 bytes.
# seconds: 900
. "$(dirname "$0")/common.sh"
requires iscsi-test-cu python3
excuse="the tool writes 512 bytes whatever the block is"
serve --size 134217728 --block 4096
conforms ALL -d "$uri"
