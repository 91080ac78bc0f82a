#!/bin/sh
# Reads past the end are EINVAL, writes are ENOSPC, and the connection lives on.
. "$(dirname "$0")/common.sh"
requires_nbdsh
serve --size 4097
nbdsh -u "$uri" -c '
h.set_strict_mode(0)
def errno(what):
    try:
        what()
    except nbd.Error as e:
        return e.errno
assert errno(lambda: h.pread(2, 4096)) == "EINVAL"
assert errno(lambda: h.pwrite(b"xx", 4096)) == "ENOSPC"
assert errno(lambda: h.zero(2, 4096)) == "ENOSPC"
assert errno(lambda: h.trim(2, 4096)) == "EINVAL"
h.pwrite(b"x", 4096)
assert h.pread(1, 4096) == b"x"
'
