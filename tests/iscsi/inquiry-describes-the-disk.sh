#!/bin/sh
# The pages of vital product data are there, and the identity survives a restart.
. "$(dirname "$0")/common.sh"
requires iscsi-inq
serve --size 1048576
iscsi-inq "$uri" | grep -q 'Vendor:QUINTET' || fail "no vendor"
iscsi-inq -e 1 -c 0 "$uri" >"$dir/pages"
for page in 00 80 83 b0 b1 b2; do
    grep -qi "page:0x$page\|0x$page" "$dir/pages" || fail "$page: $(cat "$dir/pages")"
done
serial=$(iscsi-inq -e 1 -c 128 "$uri")
kill "$server"
wait "$server" || true
serve --size 1048576
[ "$serial" = "$(iscsi-inq -e 1 -c 128 "$uri")" ] || fail "another serial number"
