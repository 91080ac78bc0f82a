#!/usr/bin/env bash
# --iscsi-access with several users in a section: each initiator gets in with the secret of its own user and with no other
# one; a wrong secret, an unknown user and the secret of another initiator look the same. A file that leaves open whom a
# line is for is refused with the line.
. "$(dirname "$0")/common.sh"
requires iscsi-inq
new_pool
exits 0 q volume create web --size 8M
one=iqn.2026-11.org.example:one two=iqn.2026-11.org.example:two
cat >"$dir/access" <<E
user = one
secret = the secret of one
initiator = $one
user = two
secret = the secret of two
initiator = $two
mutual-user = quintet
mutual-secret = the secret of the server
E
chmod 600 "$dir/access"
start_server --iscsi-listen 127.0.0.1:0 --iscsi-access "$dir/access"
portal=$(sed -n 's|.*iscsi://\(127.0.0.1:[0-9]*\).*|\1|p' "$dir/serve")
target=iqn.2026-11.org.quintet:web
# asks INITIATOR USER SECRET [USER SECRET OF THE TARGET]
asks() {
    env LIBISCSI_CHAP_USERNAME="$2" LIBISCSI_CHAP_PASSWORD="$3" \
        ${4:+LIBISCSI_CHAP_TARGET_USERNAME="$4" LIBISCSI_CHAP_TARGET_PASSWORD="$5"} \
        timeout --foreground 60 iscsi-inq -i "$1" "iscsi://$portal/$target/0"
}
may() { asks "$@" >"$dir/out" 2>&1 || fail "$*: $(cat "$dir/out")"; }
may_not() {
    ! asks "$@" >"$dir/out" 2>&1 || fail "$* was let in"
    tail -n 1 "$dir/out" >>"$dir/answers"
}
may $one one 'the secret of one'
may $two two 'the secret of two'
may $two two 'the secret of two' quintet 'the secret of the server'
may_not $one two 'the secret of two'
may_not $two one 'the secret of one'
may_not $one one 'the secret of two'
may_not $one one 'the secret of none'
may_not $one none 'the secret of one'
[ "$(sort -u "$dir/answers" | wc -l)" -eq 1 ] || fail "answers differ: $(cat "$dir/answers")"
[ "$(grep -c 'it did not prove who it is: no CHAP, or a wrong user or secret$' "$dir/serve")" -eq 5 ] ||
    fail "reasons differ: $(cat "$dir/serve")"
stop_server
refused() {
    chmod 600 "$dir/bad"
    exits 1 timeout --foreground 60 "$QUINTET" serve --iscsi-listen 127.0.0.1:0 --iscsi-access "$dir/bad"
    says "bad, line $1"
}
{ echo "initiator = $one" && cat "$dir/access"; } >"$dir/bad"
refused '1: this section has several users: which of them is this initiator for'
sed '/^initiator.*two$/d' "$dir/access" >"$dir/bad"
refused '4: of several users, either all have initiators or none has'
sed 's/the secret of two/the secret of one/' "$dir/access" >"$dir/bad"
refused '4: the secret of two is also that of another user'
sound
