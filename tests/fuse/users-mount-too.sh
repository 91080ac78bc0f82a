#!/usr/bin/env bash
# Without root: fusermount3 mounts, nobody else can look, and unmounting ends the server.
. "$(dirname "$0")/common.sh"
requires fusermount3
[ -z "${QUINTET:-}" ] || skip "users cannot reach the program where it is"
[ -u "$(readlink -f "$(command -v fusermount3)")" ] || skip "fusermount3 is not set-user-ID here"
if [ "$(id -u)" -eq 0 ]; then
    requires setpriv
    as_user="setpriv --reuid 65534 --regid 65534 --clear-groups"
    # Where a user can look and run things.
    chmod 711 "$dir"
    cp "${QUINTET_FUSE_SERVER%% *}" "$dir/server"
    QUINTET_FUSE_SERVER="$as_user $dir/server"
    mkdir "$mount"
    chown 65534:65534 "$mount"
else
    as_user=
fi
$as_user test -r /dev/fuse -a -w /dev/fuse || skip "users may not open /dev/fuse here"
show 1000000
$as_user dd if=/dev/zero of="$disk" bs=1000 count=1000 conv=notrunc status=none || fail "its owner cannot write"
grep "$mount" /proc/mounts | grep -q 'nosuid,nodev.*user_id=' || fail "$(grep "$mount" /proc/mounts)"
[ -z "$as_user" ] || ! cat "$disk" >/dev/null 2>&1 || fail "another user can look"
$as_user fusermount3 -u "$mount" || fail "fusermount3 -u"
code=0
wait $server || code=$?
server=
[ $code -eq 0 ] || fail "the server ended with $code: $(cat "$dir/server.log")"
