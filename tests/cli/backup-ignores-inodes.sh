#!/usr/bin/env bash
# --ignore-inode takes files for unchanged whose inode number and status change time differ, as after a new mount of a
# FUSE file system; --ignore-ctime the status change time alone. What changed besides is stored: contents that have another
# time, modes, attributes.
. "$(dirname "$0")/common.sh"
new_pool
export QUINTET_CONFIG=$dir/quintet.toml
cat >"$QUINTET_CONFIG" <<END
[pool]
path = "$pool"
[sources.src]
paths = ["$dir/src"]
ignore-inode = true
END
mkdir "$dir/src"
noise "$dir/src/a" 1
noise "$dir/src/b" 1
# Others inodes, the same times and sizes.
renew() {
    cp -a "$dir/src" "$dir/copy"
    rm -r "$dir/src"
    mv "$dir/copy" "$dir/src"
}
# unmodified COUNT ARGUMENT...: a backup takes so many files for unchanged.
unmodified() {
    local expected=$1
    shift
    exits 0 q backup --json "$dir/src" "$@"
    [ "$(number files_unmodified)" = "$expected" ] || fail "$*: $(cat "$dir/out")"
}
unmodified 0
unmodified 2
renew
unmodified 0
renew
unmodified 0 --ignore-ctime
renew
unmodified 2 --ignore-inode --dry-run
unmodified 2 --ignore-inode
renew
exits 0 q run src --json
[ "$(number files_unmodified)" = 2 ] || fail "by the file: $(cat "$dir/out")"

# The new inode numbers are in the snapshot: a backup without the option finds them.
unmodified 2
# A new mode, and a new attribute.
chmod 640 "$dir/src/a"
if command -v setfattr >/dev/null && setfattr -n user.new -v x "$dir/src/b" 2>/dev/null; then attributes=1; fi
unmodified 2 --ignore-ctime
exits 0 q restore "latest:$dir/src" --target "$dir/back"
[ "$(stat -c %a "$dir/back/a")" = 640 ] || fail "the mode is old"
[ -z "${attributes:-}" ] || same "$dir/src" "$dir/back"

# Other bytes of the same length, with another time.
printf x | dd of="$dir/src/a" bs=1 seek=5 conv=notrunc status=none
unmodified 1 --ignore-inode
exits 0 q restore "latest:$dir/src" --target "$dir/back" --overwrite always
cmp "$dir/src/a" "$dir/back/a" || fail "old bytes"

start_server
renew
unmodified 2 --ignore-inode
stop_server
exits 1 q backup --stdin --ignore-inode
