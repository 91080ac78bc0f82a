#!/usr/bin/env bash
# Nobody else sees a mount, unless it is for others: then modes, owners and ACLs decide, or nothing does.
. "$(dirname "$0")/common.sh"
requires_root
requires setpriv setfacl
as() { setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"; }
reads() { as "$1" cat "$there/$2" >/dev/null 2>&1; }
chmod 711 "$dir"
src=$dir/src
mkdir "$src"
for name in public private shared; do echo $name >"$src/$name"; done
chmod 644 "$src/public"
chmod 600 "$src/private" "$src/shared"
setfacl -m u:1234:r "$src/shared" 2>/dev/null || skip "no ACLs here"
new_pool
exits 0 q backup "$src"
exits 0 q volume create disk --size 1M
show
there=$mount/snapshots/latest$src
! reads 1234 public || fail "another user sees a mount that is not for others"
unshow
show --allow-other
reads 1234 public || fail "what everyone may read: $(cat "$dir/mount.err")"
! reads 1234 private || fail "what nobody may read is read"
reads 1234 shared || fail "an ACL has no effect"
! reads 1235 shared || fail "an ACL lets others in"
[ "$(getfacl -c "$there/shared" 2>/dev/null)" = "$(getfacl -c "$src/shared" 2>/dev/null)" ] || fail "ACLs differ"
disk=$mount/volumes/disk
! as 1234 head -c 1 "$disk" >/dev/null 2>&1 || fail "another user reads a volume"
printf x | dd of="$disk" conv=notrunc status=none || fail "the owner cannot write a volume"
unshow
show --allow-other --no-default-permissions
reads 1234 private || fail "--no-default-permissions has no effect"
[ "$(as 1234 head -c 1 "$disk")" = x ] || fail "--no-default-permissions has no effect on volumes"
! printf y 2>/dev/null 1<>"$disk" || fail "where everyone may read a volume was written"
unshow
