#!/bin/sh
# Exports appear and disappear while others are used; clients of a removed one are told by the end
# of their connection, and nobody else notices.
. "$(dirname "$0")/common.sh"
requires_nbdsh
requires nbdinfo
serve_controlled --size 1048576
control add second 2097152
nbdinfo --list "$uri" | grep -q 'export="second"' || fail "second is not listed"
cat >"$dir/script" <<END
other = nbd.NBD()
other.connect_uri('nbd+unix:///disk?socket=$socket')
h.connect_uri('nbd+unix:///second?socket=$socket')
assert h.get_size() == 2097152
h.pwrite(b'x' * 4096, 0, nbd.CMD_FLAG_FUA)
step('ready')
try:
    h.pread(4096, 0)
    raise SystemExit('it is still served')
except nbd.Error as e:
    assert h.aio_is_dead() or h.aio_is_closed(), e
assert other.pread(4096, 0) == bytes(4096)
again = nbd.NBD()
try:
    again.connect_uri('nbd+unix:///second?socket=$socket')
    raise SystemExit('it is still there')
except nbd.Error as e:
    assert e.errno == 'ENOENT', e
other.shutdown()
END
nbdsh_steps "$dir/script"
reached ready
control remove second
[ "$answer" = "removed, 1 clients" ] || fail "$answer"
next
ended
