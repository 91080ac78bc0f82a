#!/bin/sh
# A client with several contexts chooses among them for each question.
. "$(dirname "$0")/common.sh"
requires_extended_headers
serve_controlled --size 1048576
control mark disk then
nbdsh -c "
h.add_meta_context('base:allocation')
h.add_meta_context('qemu:dirty-bitmap:then')
h.connect_uri('$uri')
h.pwrite(b'x' * 4096, 65536)
seen = {}
def extents(context, offset, entries, error):
    seen[context] = (offset, entries)
dirty = 'qemu:dirty-bitmap:then'
h.block_status_filter(200000, 0, [dirty], extents)
assert seen == {dirty: (0, [(65536, 0), (4096, 1), (200000 - 69632, 0)])}, seen
seen.clear()
h.block_status_64(200000, 0, extents)
assert len(seen) == 2, seen
assert seen['base:allocation'] == (0, [(65536, 3), (4096, 0), (200000 - 69632, 3)]), seen
"
