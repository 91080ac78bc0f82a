#!/bin/sh
# With extended headers too: what is out of range is refused, and the connection lives on.
. "$(dirname "$0")/common.sh"
requires_extended_headers
serve --size 4294971392
nbdsh -u "$uri" -c '
h.set_strict_mode(0)
def errno(what):
    try:
        what()
    except nbd.Error as e:
        return e.errno
end = 4294971392
assert errno(lambda: h.pread(2, end - 1)) == "EINVAL"
assert errno(lambda: h.pwrite(b"xx", end - 1)) == "ENOSPC"
assert errno(lambda: h.zero(end + 1, 0)) == "ENOSPC"
assert errno(lambda: h.trim(1, end)) == "EINVAL"
assert errno(lambda: h.cache(end + 1, 0)) == "EINVAL"
h.pwrite(b"x", end - 1)
assert h.pread(1, end - 1) == b"x"
'
