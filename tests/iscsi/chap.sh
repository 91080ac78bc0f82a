#!/bin/sh
# Only initiators that know the secret get in, to discovery and to the target; both sides can prove
# who they are.
. "$(dirname "$0")/common.sh"
requires iscsi-ls iscsi-inq
serve --size 1048576 --chap "user:a secret of theirs" --mutual "us:a secret of ours"
url() { echo "iscsi://$1$portal/$target/0"; }
! iscsi-inq "$(url '')" >"$dir/log" 2>&1 || fail "no proof: $(cat "$dir/log")"
! iscsi-inq "$(url 'user%wrong@')" >"$dir/log" 2>&1 || fail "wrong secret"
export LIBISCSI_CHAP_USERNAME=user LIBISCSI_CHAP_PASSWORD="a secret of theirs"
iscsi-inq "$(url '')" >"$dir/log" 2>&1 || fail "right secret: $(cat "$dir/log")"
iscsi-ls "iscsi://$portal" | grep -q "$target" || fail "discovery"
export LIBISCSI_CHAP_TARGET_USERNAME=us LIBISCSI_CHAP_TARGET_PASSWORD="a secret of ours"
iscsi-inq "$(url '')" >"$dir/log" 2>&1 || fail "mutual: $(cat "$dir/log")"
export LIBISCSI_CHAP_TARGET_PASSWORD="a secret of others"
! iscsi-inq "$(url '')" >"$dir/log" 2>&1 || fail "the target proved itself with a wrong secret"
initiator <<'P'
from initiator import *
# Straight to the operational stage, or to no method: refused as a failed authentication.
Initiator().login(flags=0x87, expect=0x0201)
Initiator().login(flags=0x81, expect=0x0201, AuthMethod="None")
# A text that never ends is cut off.
i = Initiator().login(flags=0x40)
try:
    for _ in range(100):
        data = b"x" * 8000
        raw = header(LOGIN | 0x40, 0x40, data)
        i.send(raw, data)
        if i.receive()[0][36]:
            break
    else:
        raise AssertionError("100 requests")
except (EOFError, ConnectionError):
    pass
P
