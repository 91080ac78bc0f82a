#!/bin/sh
# NBD cannot tell a connected client of a new size: new connections (and INFO) see it, old ones are
# served within it.
. "$(dirname "$0")/common.sh"
requires_nbdsh
requires nbdinfo qemu-img
serve_controlled --size 1048576
cat >"$dir/script" <<END
h.connect_uri('$uri')
h.set_strict_mode(0)
def errno(what):
    try:
        what()
    except nbd.Error as e:
        return e.errno
assert errno(lambda: h.pread(512, 2 << 20)) == 'EINVAL'
step('small')
assert h.get_size() == 1 << 20
h.pwrite(b'x' * 512, 2 << 20)
assert h.pread(512, 2 << 20) == b'x' * 512
step('large')
assert errno(lambda: h.pread(512, 2 << 20)) == 'EINVAL'
assert errno(lambda: h.pwrite(b'x' * 512, 2 << 20)) == 'ENOSPC'
assert h.pread(512, 0) == bytes(512)
END
nbdsh_steps "$dir/script"
reached small
control resize disk 4194304
[ "$(nbdinfo --size "$uri")" = 4194304 ] || fail "nbdinfo sees another size"
qemu-img info --output=json "$uri" | grep -q '"virtual-size": 4194304' || fail "qemu does not see it"
next
reached large
control resize disk 524288
[ "$(nbdinfo --size "$uri")" = 524288 ] || fail "nbdinfo sees another size"
next
ended
