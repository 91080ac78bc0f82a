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
head -c 5000 /dev/urandom >"$dir/raw"
exits 0 q import "$dir/raw" image
q backup --stdin --stdin-filename stream <"$dir/raw" >/dev/null || fail "backup --stdin"
exits 0 q volume create disk --size 1M
exits 0 q volume snapshot disk@frozen
exits 0 q backup "$src"
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
# Images and streams are disks and dumps of databases: their owner's.
singles=$(find "$mount"/snapshots/*/ -maxdepth 1 -type f \( -name image -o -name stream -o -name 'disk*' \))
singles+=" $(find "$mount/images" -type f 2>/dev/null || true)"
[ "$(wc -w <<<"$singles")" -ge 3 ] || fail "images and streams are not there: $singles"
for single in $singles; do
    [ "$(stat -c %a "$single")" = 400 ] || fail "mode $(stat -c %a "$single") of $single"
    ! as 1234 head -c 1 "$single" >/dev/null 2>&1 || fail "another user reads $single"
    head -c 1 "$single" >/dev/null || fail "the owner cannot read $single"
done
disk=$mount/volumes/disk
! as 1234 head -c 1 "$disk" >/dev/null 2>&1 || fail "another user reads a volume"
printf x | dd of="$disk" conv=notrunc status=none || fail "the owner cannot write a volume"
unshow
show --allow-other --no-default-permissions
reads 1234 private || fail "--no-default-permissions has no effect"
[ "$(as 1234 head -c 1 "$disk")" = x ] || fail "--no-default-permissions has no effect on volumes"
! printf y 2>/dev/null 1<>"$disk" || fail "where everyone may read a volume was written"
unshow
