#!/bin/sh
# Off loopback the server starts only with CHAP and a list of initiators.
. "$(dirname "$0")/common.sh"
for arguments in "" "--initiator iqn.x:y" "--chap user:twelve-bytes-or-more" "--chap user:short --initiator iqn.x:y"; do
    ! timeout 5 $QUINTET_ISCSI_SERVER --size 1048576 $arguments 0.0.0.0:0 >"$dir/log" 2>&1 ||
        fail "served with '$arguments'"
    ! grep -q ^ready "$dir/log" || fail "ready with '$arguments'"
done
$QUINTET_ISCSI_SERVER --size 1048576 --chap user:twelve-bytes-or-more --initiator iqn.x:y 0.0.0.0:0 >"$dir/log" 2>&1 &
server=$!
for _ in $(seq 600); do
    grep -q ^ready "$dir/log" && exit
    sleep 0.1
done
fail "$(cat "$dir/log")"
