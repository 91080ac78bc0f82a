#!/usr/bin/env bash
# Snapshots have the names of users and groups: ls and find show them, restore finds their numbers on its machine, dump
# writes them, a copy has them, and a name that another user gets changes no stored directory.
. "$(dirname "$0")/common.sh"
requires_root
requires tar python3 getent
other_pool
new_pool
new_other_pool
mkdir -p "$dir/src/below"
echo a >"$dir/src/alice's"
echo b >"$dir/src/nameless"
echo c >"$dir/src/below/evil"
chown 4001:4002 "$dir/src/alice's" "$dir/src/below"
chown 4003:4004 "$dir/src/nameless"
chown 4005:4005 "$dir/src/below/evil"

# machine UID GID: from here on alice and her group "domain users" have these numbers.
accounts() {
    cp /etc/passwd "$dir/passwd"
    cp /etc/group "$dir/group"
    echo "alice:x:$1:$2::/:/bin/sh" >>"$dir/passwd"
    echo "domain users:x:$2:" >>"$dir/group"
    printf 'e\033[2Jvil:x:4005:4005::/:/bin/sh\n' >>"$dir/passwd"
}
accounts 4001 4002
mount --bind "$dir/passwd" /etc/passwd 2>/dev/null || skip "cannot mount over /etc/passwd here"
mounted+=(/etc/passwd)
mount --bind "$dir/group" /etc/group
mounted+=(/etc/group)
[ "$(getent passwd 4001 | cut -d: -f1)" = alice ] || skip "getent does not read /etc/passwd here"
# move UID GID: the same names on another machine.
move() {
    umount /etc/passwd /etc/group
    accounts "$1" "$2"
    mount --bind "$dir/passwd" /etc/passwd
    mount --bind "$dir/group" /etc/group
}

exits 0 q backup "$dir/src"
exits 0 q ls -lR "latest:$dir/src"
says "alice domain users "
says " 4003         4004 "
says " 4005         4005 "
matches -- '-rw.* alice domain users  *2 20.*alice' <"$dir/out" || fail "$(cat "$dir/out")"
exits 0 q find -l "alice's"
says "alice domain users "
exits 0 q ls --json "latest:$dir/src"
python3 - "$dir/out" <<'P'
import json, sys
nodes = {n["name"]: n for n in map(json.loads, open(sys.argv[1])) if n["message_type"] == "node"}
alice, nameless = nodes["alice's"], nodes["nameless"]
assert (alice["uid"], alice["gid"], alice["user"], alice["group"]) == (4001, 4002, "alice", "domain users"), alice
assert alice["mode"] == 0o644 and alice["mtime"], alice
assert (nameless["uid"], nameless["gid"]) == (4003, 4004) and "user" not in nameless, nameless
P
exits 0 q dump "latest:$dir/src" --target "$dir/tar"
tar -tvf "$dir/tar" | matches "alice/domain users .* src/alice's" || fail "$(tar -tvf "$dir/tar")"
exits 0 q copy --all
exits 0 o ls -l "latest:$dir/src"
says "alice domain users "

# owner NAME: of a restored file.
owner() {
    stat -c %u:%g "$dir/back/$1"
}
move 4101 4102
exits 0 q restore "latest:$dir/src" --target "$dir/back"
[ "$(owner "alice's") $(owner below) $(owner nameless)" = "4101:4102 4101:4102 4003:4004" ] ||
    fail "$(ls -lnR "$dir/back")"
exits 0 q restore "latest:$dir/src" --target "$dir/back" --numeric-ids --overwrite always
[ "$(owner "alice's") $(owner below)" = "4001:4002 4001:4002" ] || fail "$(ls -lnR "$dir/back")"
exits 0 q restore "latest:$dir/src/below" --target "$dir/back/below" --overwrite always
[ "$(owner below)" = "4101:4102" ] || fail "the directory itself: $(ls -lnR "$dir/back")"
exits 1 q restore latest --target "$dir/back" --numeric-ids --no-owner

# The names are not in the directories: the same files with other names store at most the directories above them, which
# have changed. Also in a server.
above=$(tr -cd / <<<"$dir/src" | wc -c)
start_server
exits 0 q backup --force --json "$dir/src"
[ "$(number chunks_new)" -le "$above" ] || fail "$(cat "$dir/out")"
exits 0 q ls -l "latest:$dir/src"
says " 4001  4002 "
move 4003 4004
exits 0 q backup "$dir/src"
exits 0 q ls -l "latest:$dir/src"
says "alice domain users .*nameless"
stop_server
sound
umount /etc/passwd /etc/group
