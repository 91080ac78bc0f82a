#!/usr/bin/env bash
# Sessions of initiators are seen where NBD connections are: status, top, metrics, and who keeps a forgotten snapshot.
# Sockets of a service manager that are named iscsi are for initiators, others for NBD clients; the rules for addresses
# hold there too.
. "$(dirname "$0")/common.sh"
requires python3 qemu-io qemu-img curl iscsi-ls
requires_qemu_iscsi
new_pool
exits 0 q volume create disk --size 8M
noise "$dir/image" 1
exits 0 q import "$dir/image" picture
# activated ADDRESS NAMES ARGUMENT...: serves on two sockets that this script's Python opened.
activated() {
    rm -f "$dir/serve"
    python3 - "$@" >"$dir/serve" 2>&1 <<'P' &
import os, socket, sys
sockets = [socket.create_server((sys.argv[1], 0)) for _ in range(2)]
for fd, one in zip((103, 104), sockets):
    os.dup2(one.fileno(), fd)
for one in sockets:
    one.detach()
for fd in (3, 4):
    os.dup2(fd + 100, fd, inheritable=True)
os.environ |= {"LISTEN_FDS": "2", "LISTEN_FDNAMES": sys.argv[2]}
os.execvp(os.environ["QUINTET"], ["quintet", "serve", *sys.argv[3:]])
P
    server=$!
    wait_until is_serving
}
activated 127.0.0.1 web:iscsi --metrics 127.0.0.1:0
kill -0 "$server" || fail "$(cat "$dir/serve")"
portal=$(grep -o 'iscsi://[0-9.:]*' "$dir/serve")
nbd=$(grep -o 'nbd://[0-9.:]*' "$dir/serve")
io() { qemu-io -f raw "$@" >"$dir/io" 2>&1 && ! grep -qi 'fail\|error' "$dir/io" || fail "$(cat "$dir/io")"; }
io -c 'write -P 5 0 64k' "$portal/iqn.2026-11.org.quintet:disk/0"
io -c 'read -P 5 0 64k' "$nbd/disk"
url=$(sed -n 's/^metrics at //p' "$dir/serve")
metric() {
    curl -sf "$url" >"$dir/metrics" || fail "no metrics at $url"
    awk -v name="$1" '$1 == name { print $2 }' "$dir/metrics"
}
[ "$(metric 'quintet_export_bytes_total{export="disk",operation="write"}')" = 65536 ] || fail "$(grep export "$dir/metrics")"
[ "$(metric 'quintet_iscsi_requests_total{command="write"}')" -ge 1 ] || fail "$(grep iscsi "$dir/metrics")"
[ "$(metric quintet_iscsi_sent_bytes_total)" -gt 0 ] || fail "$(grep iscsi "$dir/metrics")"
gone() { [ "$(metric quintet_iscsi_connections)" = 0 ]; }
wait_until gone
# A session that stays, at a snapshot that is forgotten meanwhile.
state=$(iscsi-ls "$portal" | grep -o 'quintet:picture:[0-9a-f]*' | cut -d: -f3)
mkfifo "$dir/commands"
qemu-io -r -f raw "$portal/iqn.2026-11.org.quintet:picture:$state/0" <"$dir/commands" >"$dir/held" 2>&1 &
held=$!
exec 7>"$dir/commands"
echo 'read 0 512' >&7
wait_until grep -q 'read 512/512' "$dir/held"
[ "$(metric quintet_iscsi_connections)" = 1 ] || fail "$(grep iscsi "$dir/metrics")"
[ "$(metric "quintet_export_clients{export=\"picture@$state\"}")" = 1 ] || fail "$(grep clients "$dir/metrics")"
[ "$(metric 'quintet_holds{kind="iscsi"}')" = 1 ] || fail "$(grep holds "$dir/metrics")"
[ "$(metric 'quintet_holds{kind="nbd"}')" = 0 ] || fail "$(grep holds "$dir/metrics")"
exits 0 q top --count 1 --interval 0.1
says '^iscsi: 1 connection;'
exits 0 q top --json --count 1 --interval 0.1
says '"iscsi_connections":1'
exits 0 q status --json
says '"iscsi_connections":1'
exits 0 q status
says 'clients: 1 connection to 1 export'
exits 0 q forget "$state"
exits 0 q status
says '1 iSCSI session to picture'
exec 7>&-
wait $held || fail "$(cat "$dir/held")"
stop_server
# A socket of the service manager that other machines can reach.
activated 0.0.0.0 iscsi:iscsi
! wait "$server" || fail "served 0.0.0.0 without rules"
server=
grep -q 'cannot serve iSCSI on 0.0.0.0:.*lacks a user' "$dir/serve" || fail "$(cat "$dir/serve")"
sound
