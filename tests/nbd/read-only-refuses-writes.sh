#!/bin/sh
# A read-only export says so, and a client that writes all the same gets EPERM.
. "$(dirname "$0")/common.sh"
requires nbdinfo
requires_nbdsh
serve --read-only --size 1048576
nbdinfo --is readonly "$uri" || fail "not announced"
nbdsh -u "$uri" -c '
h.set_strict_mode(0)
for what in (lambda: h.pwrite(b"x", 0), lambda: h.trim(1, 0), lambda: h.zero(1, 0)):
    try:
        what()
        raise SystemExit("was allowed")
    except nbd.Error as e:
        assert e.errno == "EPERM", e
assert h.pread(4, 0) == bytes(4)
'
