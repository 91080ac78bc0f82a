#!/bin/sh
# A client that may use TLS goes on without; one that must gives up.
. "$(dirname "$0")/common.sh"
requires_nbdsh
serve --size 4096
nbdsh -c "
if not h.supports_tls():
    raise SystemExit(0)
h.set_tls(nbd.TLS_ALLOW)
h.connect_uri('$uri')
assert h.get_size() == 4096
assert not h.get_tls_negotiated()
"
