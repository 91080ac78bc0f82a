#!/bin/sh
# CACHE, FUA on every command that may have it, FAST_ZERO without holes, unknown flags.
. "$(dirname "$0")/common.sh"
requires_nbdsh
serve --size 1048576
nbdsh -u "$uri" -c '
assert h.can_cache() and h.can_fua() and h.can_fast_zero() and h.can_df()
h.cache(1048576, 0)
fua = nbd.CMD_FLAG_FUA
h.pwrite(b"f" * 512, 0, fua)
h.zero(256, 0, fua | nbd.CMD_FLAG_FAST_ZERO)
h.trim(128, 256, fua)
assert h.pread(512, 0) == bytes(384) + b"f" * 128
try:
    h.zero(256, 0, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE)
    raise SystemExit("fast zeroes that keep their space")
except nbd.Error as e:
    assert e.errno == "ENOTSUP", e
h.set_strict_mode(0)
for flags in (1 << 7, 1 << 15, nbd.CMD_FLAG_REQ_ONE):
    try:
        h.pread(1, 0, flags)
        raise SystemExit("unknown flag was allowed")
    except nbd.Error as e:
        assert e.errno == "EINVAL", e
'
