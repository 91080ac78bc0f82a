#!/bin/sh
# iscsi-test-cu of libiscsi, all tests of its family ALL, scored: over a slow device.
# seconds: 900
. "$(dirname "$0")/common.sh"
requires iscsi-test-cu python3
serve --size 134217728 --slow-us 300 --slow-write-us 300
conforms ALL -d "$uri"
