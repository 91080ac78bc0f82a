#!/bin/sh
# Off loopback the server starts only with CHAP and a list of initiators.
. "$(dirname "$0")/common.sh"
for arguments in "" "--initiator iqn.x:y" "--chap user:twelve-bytes-or-more" "--chap user:short --initiator iqn.x:y"; do
    code=0
    timeout --foreground 60 $QUINTET_ISCSI_SERVER --size 1048576 $arguments 0.0.0.0:0 >"$dir/log" 2>&1 || code=$?
    # 124 would be the end of the time: it served.
    [ $code -ne 0 ] && [ $code -ne 124 ] || fail "served with '$arguments': $code"
    ! grep -q ^ready "$dir/log" || fail "ready with '$arguments'"
done
$QUINTET_ISCSI_SERVER --size 1048576 --chap user:twelve-bytes-or-more --initiator iqn.x:y 0.0.0.0:0 >"$dir/server.log" 2>&1 &
server=$!
wait_until accepts
kill -0 "$server" 2>/dev/null || fail "$(cat "$dir/server.log")"
