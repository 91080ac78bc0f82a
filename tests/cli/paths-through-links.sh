#!/usr/bin/env bash
# A path of a backup that leads through symbolic links stores the directories behind them, with their own modes, owners,
# times and attributes. A restore over the same place keeps the links. A link to a file is said to be only a link.
. "$(dirname "$0")/common.sh"
real=$dir/real
mkdir -p "$real/sub"
echo secret >"$real/f"
echo below >"$real/sub/f"
setfattr -n user.mark -v this "$real" 2>/dev/null || skip "setfattr is missing, or there are no user attributes here"
chmod 750 "$real/sub"
chmod 700 "$real"
[ "$(id -u)" -ne 0 ] || chown 1234:1234 "$real"
touch -d 2020-01-01 "$real"
ln -s real "$dir/link"
ln -s "$real/sub" "$dir/absolute"
new_pool
state() {
    (cd "$1" && stat -c '%A %u %g %y' . && getfattr -n user.mark --absolute-names --only-values .)
}
before=$(state "$real")
exits 0 q backup "$dir/link" "$dir/absolute"
exits 0 q restore latest --target "$dir/back" --verify
[ "$(state "$dir/back$dir/link")" = "$before" ] || fail "not the directory's own: $(state "$dir/back$dir/link")"
[ "$(stat -c %a "$dir/back$dir/absolute")" = 750 ] || fail "not the directory's own mode"
# In the middle of a path.
exits 0 q backup "$dir/link/sub"
exits 0 q restore latest --target "$dir/back2"
[ "$(state "$dir/back2$dir/link")" = "$before" ] || fail "not the directory's own: $(state "$dir/back2$dir/link")"
# Nothing has changed, so nothing is read.
exits 0 q backup "$dir/link" "$dir/absolute" --json
[ "$(number files_unmodified)" -eq 3 ] || fail "read again: $(cat "$dir/out")"

# Over the same place: the links stay, what they lead to is restored, also in a dry run and what --verify reads.
echo changed >"$real/f"
echo changed >"$real/sub/f"
touch -d 2021-01-01 "$real"
exits 0 q restore latest --target / --include "$dir/link" --include "$dir/absolute" --dry-run
says "$dir/link stays a link"
[ "$(cat "$real/f")" = changed ] || fail "a dry run has changed something"
exits 0 q restore latest --target / --include "$dir/link" --include "$dir/absolute" --verify
says "$dir/link stays a link"
[ -L "$dir/link" ] && [ -L "$dir/absolute" ] || fail "a link is gone"
[ "$(cat "$real/f") $(cat "$real/sub/f")" = "secret below" ] || fail "not restored"
[ "$(state "$real")" = "$before" ] || fail "restored as $(state "$real")"
# In another place an absolute link begins there, so nothing outside is touched.
mkdir -p "$dir/machine$dir" "$dir/machine$real/sub"
ln -s "$real/sub" "$dir/machine$dir/absolute"
echo mine >"$real/sub/f"
exits 0 q restore latest --target "$dir/machine" --include "$dir/absolute"
[ "$(cat "$real/sub/f") $(cat "$dir/machine$real/sub/f")" = "mine below" ] || fail "it left its target"
# A link that leads nowhere, or that others can change, is not followed and not replaced.
ln -sfn gone "$dir/link"
exits 3 q restore latest --target / --include "$dir/link"
says "leads to gone: no such file or directory; mount"
[ "$(readlink "$dir/link")" = gone ] || fail "the link was replaced"
ln -sfn real "$dir/link"
chmod 777 "$dir"
exits 3 q restore latest --target / --include "$dir/link"
says "other users can change this link"
chmod 700 "$dir"
[ -L "$dir/link" ] || fail "the link was replaced"

# A link to a file.
ln -s real/f "$dir/to-file"
exits 0 q backup -q "$dir/to-file"
says "to-file is a symbolic link: only the link is stored"
exits 0 q backup "$dir/to-file" "$real"
! grep -q "symbolic link" "$dir/err" || fail "told although its file is stored: $(cat "$dir/err")"
sound
