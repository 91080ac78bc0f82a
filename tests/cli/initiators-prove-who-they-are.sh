#!/usr/bin/env bash
# --iscsi-access: only initiators that are named and know the secret get in, and see only their targets; the server
# proves itself when it is asked; secrets come from a file that nobody else can read; an address that other machines can
# reach is served with CHAP and a list only. All of it as libiscsi's tools see it.
. "$(dirname "$0")/common.sh"
requires iscsi-ls iscsi-inq
new_pool
exits 0 q volume create web --size 8M
exits 0 q volume create db --size 8M
exits 0 q volume snapshot db@before
exits 0 q volume create closed --size 8M
head -c 1000 /dev/zero >"$dir/odd"
exits 0 q import "$dir/odd" odd
# Capitals become two digits each in a name of iSCSI.
long=$(printf 'L%.0s' $(seq 110))
exits 0 q volume create "$long" --size 8M
friend=iqn.2026-11.org.example:friend stranger=iqn.2026-11.org.example:stranger
cat >"$dir/access" <<E
user = web
secret = the secret of web
initiator = $friend
[export db]
user = db
secret = the secret of db
mutual-user = quintet
mutual-secret = the secret of the server
initiator = $friend
initiator = iqn.2026-11.org.example:other
[export closed]
E
# Refused before the pool is opened: whoever waits for the pool waits for nothing.
refused() {
    exits 1 timeout --foreground 60 "$QUINTET" serve "$@"
    says 'iscsi'
}
refused --iscsi-listen 127.0.0.1:0 --iscsi-access "$dir/access"
says 'mode 0644.*run chmod 600'
chmod 600 "$dir/access"
refused --iscsi-listen 0.0.0.0:0
says 'cannot serve iSCSI on 0.0.0.0:0: other machines can reach it.*--iscsi-access'
grep -v '^initiator' "$dir/access" >"$dir/unlisted"
chmod 600 "$dir/unlisted"
refused --iscsi-listen 0.0.0.0:0 --iscsi-access "$dir/unlisted"
says 'lacks a user with a secret, or an initiator'
echo 'secret = short' >"$dir/short"
chmod 600 "$dir/short"
refused --iscsi-listen 127.0.0.1:0 --iscsi-access "$dir/short"
says 'short, line 1: secret has fewer than 12 bytes'

# Off loopback: the same file, and the machine's own address if it has one.
start_server --iscsi-listen 0.0.0.0:0 --iscsi-access "$dir/access" --metrics 127.0.0.1:0
port=$(sed -n 's|.*iscsi://0.0.0.0:\([0-9]*\).*|\1|p' "$dir/serve")
address=$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -m 1 '^[0-9.]*$' || echo 127.0.0.1)
portal=$address:$port
name=iqn.2026-11.org.quintet
# asks INITIATOR USER SECRET TARGET [USER SECRET OF THE TARGET]: an INQUIRY, or a list without a target.
asks() {
    local tool=(iscsi-inq -i "$1" "iscsi://$portal/$name:$4/0")
    [ -n "$4" ] || tool=(iscsi-ls -i "$1" "iscsi://$portal")
    env ${2:+LIBISCSI_CHAP_USERNAME="$2" LIBISCSI_CHAP_PASSWORD="$3"} \
        ${5:+LIBISCSI_CHAP_TARGET_USERNAME="$5" LIBISCSI_CHAP_TARGET_PASSWORD="$6"} timeout --foreground 60 "${tool[@]}"
}
may() { asks "$@" >"$dir/out" 2>&1 || fail "$*: $(cat "$dir/out")"; }
may_not() { ! asks "$@" >"$dir/out" 2>&1 || fail "$* was let in"; }
may $friend web 'the secret of web' web
may_not $friend '' '' web
may_not $friend web 'another secret' web
may_not $friend db 'the secret of web' web
may_not $stranger web 'the secret of web' web
grep -qi 'authori' "$dir/out" || fail "$(cat "$dir/out")"
# A target with a section of its own, and the states of its volume.
may $friend db 'the secret of db' db
may iqn.2026-11.org.example:other db 'the secret of db' db:before
may_not $friend web 'the secret of web' db
may_not $friend web 'the secret of web' closed
# The server proves itself, and only with the right secret.
may $friend db 'the secret of db' db quintet 'the secret of the server'
may_not $friend db 'the secret of db' db quintet 'the secret of others'
may_not $friend web 'the secret of web' web quintet 'the secret of the server'
# Lists have what the initiator may log in to.
may $friend web 'the secret of web' ''
[ "$(grep -c "$name" "$dir/out")" -ge 2 ] && ! grep -q "$name:closed" "$dir/out" || fail "$(cat "$dir/out")"
may_not $friend '' '' ''
may_not $stranger web 'the secret of web' ''
may_not iqn.2026-11.org.example:other web 'the secret of web' ''
# Each denied login is in the log, until there are many: who, from where, what for, and why.
denied="iSCSI login denied: initiator"
grep -q "$denied $friend at $address:[0-9]*, target $name:web: it did not prove who it is" "$dir/serve" &&
    grep -q "$denied $stranger at $address:[0-9]*, target $name:web: it is not in the list" "$dir/serve" &&
    [ "$(grep -c "$denied" "$dir/serve")" -le 20 ] || fail "$(cat "$dir/serve")"
# What ends with part of a block is no target, and that is said.
grep -q 'odd is not served over iSCSI: its size, 1000 bytes, is no multiple of 512' "$dir/serve" ||
    fail "$(cat "$dir/serve")"
grep -q "$long is not served over iSCSI: its name is too long for a target" "$dir/serve" || fail "$(cat "$dir/serve")"
may $friend web 'the secret of web' ''
! grep -q "$name:odd" "$dir/out" || fail "$(cat "$dir/out")"
may_not $friend web 'the secret of web' odd
# No secret is in the command line, in a message, or in the answers to status.
! tr '\0' ' ' <"/proc/$server/cmdline" | grep -q 'secret of' || fail "a secret is in the command line"
q status --json >"$dir/status" || true
! grep -q 'the secret of' "$dir/serve" "$dir/status" || fail "a secret was printed"
if command -v curl >/dev/null; then
    curl -sf "$(sed -n 's/^metrics at //p' "$dir/serve")" >"$dir/metrics"
    [ "$(awk '$1 == "quintet_iscsi_logins_denied_total" { print $2 }' "$dir/metrics")" -ge 10 ] ||
        fail "$(grep iscsi "$dir/metrics")"
fi
stop_server
# Somebody else's file is not believed, whoever runs the server.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    chown 65534 "$dir/access"
    refused --iscsi-listen 127.0.0.1:0 --iscsi-access "$dir/access"
    says 'belongs to another user'
fi
sound
