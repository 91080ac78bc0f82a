#!/usr/bin/env bash
# Volumes, images and snapshots that are made, resized or removed while the pool is mounted are there or gone at
# the next look; volumes that are open as files count as in use.
. "$(dirname "$0")/common.sh"
new_pool
mkdir "$dir/src" && echo one >"$dir/src/file"
show
lists() { [ "$(ls "$mount/$1" | tr '\n' ' ')" = "$2" ] || fail "$1: $(ls "$mount/$1")"; }
is_free() { [ "$(q volume delete "$1" --dry-run | grep -c use)" = 0 ]; }
lists . "hosts ids images snapshots tags volumes "
lists volumes ""
! cat "$mount/volumes/a" 2>/dev/null || fail "a volume that is not there"
exits 0 q volume create a --size 1M
exits 0 q volume create b/c --size 2M
lists volumes "a b "
lists volumes/b "c "
[ "$(stat -c %s "$mount/volumes/b/c")" -eq $((2 << 20)) ] || fail "$(stat "$mount/volumes/b/c")"
exits 0 q volume resize b/c 3M
[ "$(stat -c %s "$mount/volumes/b/c")" -eq $((3 << 20)) ] || fail "$(stat "$mount/volumes/b/c")"
printf hello | dd of="$mount/volumes/a" bs=1 seek=5000 conv=notrunc,fsync status=none
exits 0 q volume snapshot a@x
lists volumes "a a@x b "
printf HELLO | dd of="$mount/volumes/a" bs=1 seek=5000 conv=notrunc status=none
at_5000() { dd if="$1" bs=1 skip=5000 count=5 status=none; }
[ "$(at_5000 "$mount/volumes/a@x") $(at_5000 "$mount/volumes/a")" = "hello HELLO" ] || fail "the snapshot changed"
# In use: refused, or cut off.
wait_until is_free a
exec 8<>"$mount/volumes/a"
exits 1 q volume rollback a@x
says use
exits 1 q volume delete a
exits 0 q volume rollback a@x --force
! cat <&8 >/dev/null 2>&1 || fail "a file that was cut off can be read"
exec 8>&-
[ "$(at_5000 "$mount/volumes/a")" = hello ] || fail "rolled back, and still as before"
wait_until is_free a
exits 0 q volume delete a
exits 0 q forget a@x
lists volumes "b "
! stat "$mount/volumes/a" 2>/dev/null || fail "a volume that is gone"
# A volume of the same name is another one.
exits 0 q volume create a --size 1M
[ "$(at_5000 "$mount/volumes/a" | tr -d '\0')" = "" ] || fail "a new volume has old bytes"
# Images: the newest state has the plain name.
noise "$dir/disk.img" 1
exits 0 q import "$dir/disk.img" disk
cmp "$mount/images/disk" "$dir/disk.img" || fail "an image that was imported"
noise "$dir/newer.img" 1
exits 0 q import "$dir/newer.img" disk
cmp "$mount/images/disk" "$dir/newer.img" || fail "not the newest state"
[ "$(ls "$mount/images" | wc -l)" -eq 3 ] || fail "$(ls "$mount/images")"
! dd if=/dev/zero of="$mount/images/disk" bs=1 count=1 conv=notrunc 2>/dev/null || fail "an image was written"
# Snapshots, and the links to them.
exits 0 q backup --host web --tag night "$dir/src"
first=$(readlink "$mount/snapshots/latest")
cmp "$mount/snapshots/latest$dir/src/file" "$dir/src/file" || fail "a backup is not there"
echo two >"$dir/src/file"
sleep 1
exits 0 q backup --host db "$dir/src"
[ "$(readlink "$mount/snapshots/latest")" != "$first" ] || fail "latest leads to $first"
cmp "$mount/snapshots/latest$dir/src/file" "$dir/src/file" || fail "latest is not the latest"
[ -e "$mount/hosts/web/latest" ] || fail "hosts: $(ls "$mount/hosts")"
cmp "$mount/tags/night/latest$dir/src/file" <(echo one) || fail "the older one"
exits 0 q forget --host web latest
! stat "$mount/hosts/web" 2>/dev/null || fail "a host without snapshots"
lists tags ""
! stat "$mount/snapshots/$first" 2>/dev/null || fail "a snapshot that was forgotten"
cmp "$mount/hosts/db/latest$dir/src/file" "$dir/src/file" || fail "the one that stays"
unshow
# Only looking needs nobody's leave: a server has the pool.
start_server
holder=$server
show --read-only
lists volumes ""
cmp "$mount/images/disk" "$dir/newer.img" || fail "an image"
[ "$(readlink "$mount/snapshots/latest")" != "" ] || fail "no snapshots"
sound
unshow
kill -TERM "$holder"
wait "$holder" || fail "the server: $(cat "$dir/serve")"
