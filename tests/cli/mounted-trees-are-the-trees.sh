#!/usr/bin/env bash
# A mounted snapshot is the tree: every byte, mode, owner, time, link, hole, ACL and attribute.
. "$(dirname "$0")/common.sh"
requires rsync python3
src=$dir/src
odd_tree "$src"
new_pool
exits 0 q backup --host web --tag night "$src"
echo more >>"$src/new-file"
exits 0 q backup --host db "$src"
show
there=$mount/snapshots/latest$src
same "$src" "$there"
[ "$(stat -c '%i %h' "$there/file")" = "$(stat -c '%i %h' "$there/sub/deep/hard two")" ] || fail "a hard link was lost"
[ "$(stat -c %h "$there/file")" -eq 3 ] || fail "links: $(stat "$there/file")"
[ "$(stat -c '%y %z' "$there/large")" = "$(stat -c '%y %z' "$src/large")" ] || fail "times: $(stat "$there/large")"
[ "$(readlink "$there/link")" = file ] || fail "link"
[ "$(stat -c '%F %t %T' "$there/char" 2>/dev/null)" = "$(stat -c '%F %t %T' "$src/char" 2>/dev/null)" ] || fail "device"
python3 - "$there" "$src" <<'P' || fail "holes"
import os, sys
def map(path):
    fd, at, out = os.open(path, os.O_RDONLY), 0, []
    while True:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            return out
        end = os.lseek(fd, at, os.SEEK_HOLE)
        out.append((at >> 16, end >> 16)); at = end
assert map(sys.argv[1] + "/all-hole") == []
assert map(sys.argv[1] + "/large") == [(0, 3000000 >> 16)]
there, here = (map(p + "/holes") for p in sys.argv[1:])
assert len(there) == 1 and there[0][0] <= here[0][0] and there[0][1] < here[0][1] + 2, (there, here)
P
cp -a --sparse=auto "$there/holes" "$dir/copy" && cmp "$dir/copy" "$src/holes"
[ "$(stat -c %b "$dir/copy")" -lt 1024 ] || fail "the copy has no holes"
(cd "$src" && find . | LC_ALL=C sort) >"$dir/names"
(cd "$there" && find . | LC_ALL=C sort) | cmp - "$dir/names" || fail "find"
find "$mount/snapshots" -printf '%i\n' | sort >"$dir/inodes"
[ "$(uniq -d "$dir/inodes" | wc -l)" -eq 2 ] || fail "only the hard links of two snapshots share numbers: $(uniq -d "$dir/inodes")"
! touch "$there/x" 2>/dev/null || fail "a snapshot was written"
# The same file under every name of its snapshot.
[ "$(ls "$mount")" = "$(printf 'hosts\nids\nimages\nsnapshots\ntags\nvolumes')" ] || fail "$(ls "$mount")"
old=$(q snapshots --json | sed -n 's/.*"id":"\([0-9a-f]\{8\}\).*/\1/p' | sed -n 1p)
for way in "ids/$old" hosts/web/latest tags/night/latest; do
    [ ! -e "$mount/$way$src/new-file" ] && cmp "$mount/$way$src/large" "$src/large" || fail "$way"
    [ "$(readlink -f "$mount/$way")" = "$(readlink -f "$mount/ids/$old")" ] || fail "$way leads elsewhere"
done
[ -e "$mount/hosts/db/latest$src/new-file" ] || fail "the newer one"
before=$(stat -c %i "$there/large")
unshow
show
[ "$(stat -c %i "$there/large")" = "$before" ] || fail "numbers of files change from mount to mount"
exits 0 q check
unshow
