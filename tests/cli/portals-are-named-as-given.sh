#!/usr/bin/env bash
# --iscsi-portal: discovery names these addresses and this group instead of the address of the connection, and logins say
# the same group. What cannot be an address is refused with words, before anything is opened.
. "$(dirname "$0")/common.sh"
requires iscsi-ls iscsi-inq
new_pool
exits 0 q volume create web --size 8M
# discovers: sets list, as iscsi-ls shows it.
discovers() {
    portal=$(sed -n 's|.*iscsi://\(127.0.0.1:[0-9]*\).*|\1|p' "$dir/serve")
    list=$(timeout --foreground 60 iscsi-ls "iscsi://$portal" 2>&1) || fail "$list"
}
start_server --iscsi-listen 127.0.0.1:0
discovers
[[ $list == *"Portal:$portal,1"* ]] || fail "$list"
stop_server
start_server --iscsi-listen 127.0.0.1:0 --iscsi-portal san.example.org:3260,7 --iscsi-portal '[2001:db8::7]:13260,7'
discovers
[[ $list == *san.example.org:3260,7* && $list == *'[2001:db8::7]:13260,7'* && $list != *"$portal"* ]] || fail "$list"
# Whoever knows the address of the server still gets in there.
timeout --foreground 60 iscsi-inq "iscsi://$portal/iqn.2026-11.org.quintet:web/0" >"$dir/out" || fail "$(cat "$dir/out")"
stop_server
refused() {
    exits "$1" timeout --foreground 60 "$QUINTET" serve --iscsi-listen 127.0.0.1:0 "${@:3}"
    says "$2"
}
refused 1 'a portal is HOST:PORT' --iscsi-portal 192.0.2.7
refused 1 'brackets' --iscsi-portal 2001:db8::7:3260
refused 1 'no initiator can connect' --iscsi-portal 0.0.0.0:3260
refused 1 'the port of a portal' --iscsi-portal 192.0.2.7:0
refused 1 'the tag of a portal group' --iscsi-portal 192.0.2.7:3260,0
refused 1 'the portals of one server are one group' --iscsi-portal 192.0.2.7:3260,1 --iscsi-portal 192.0.2.8:3260
sound
