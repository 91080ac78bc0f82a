#!/bin/sh
# A wrong name is an error, not a hang; the right one works on the same connection.
. "$(dirname "$0")/common.sh"
requires_nbdsh
serve --size 4096
nbdsh -c "
h.set_opt_mode(True)
h.connect_uri('$uri')
h.set_export_name('no such export')
try:
    h.opt_go()
    raise SystemExit('was allowed')
except nbd.Error as e:
    assert e.errno == 'ENOENT', e
h.set_export_name('')
h.opt_go()
assert h.get_size() == 4096
"
