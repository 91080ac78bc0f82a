#!/bin/sh
# A client that does not ask for structured replies gets simple ones.
. "$(dirname "$0")/common.sh"
requires_nbdsh
serve --size 1048576
nbdsh -c "
h.set_request_structured_replies(False)
h.connect_uri('$uri')
assert not h.get_structured_replies_negotiated()
h.pwrite(b'z' * 50000, 7)
assert h.pread(50002, 6) == bytes(1) + b'z' * 50000 + bytes(1)
"
