#!/usr/bin/env bash
# Hosts, tags, labels, paths and names are whatever their writers liked: no command lets them move a
# terminal's cursor, and programs get the names exactly.
# Sealed: labels of keys are among the names.
. "$(dirname "$0")/common.sh"
sealed
requires script
escape=$'\e]0;owned\a\e[2Jx\u202ey\u009bz'
src=$dir/src
mkdir "$src"
echo x >"$src/$escape"
ln -s "$escape" "$src/link"
new_pool
exits 0 q backup "$src" --host "$escape" --tag "$escape"
echo y >"$src/$escape$escape"
exits 0 q backup "$src" --host "$escape" --tag "$escape"
echo stream | q backup --stdin --stdin-filename "name$escape" >/dev/null 2>&1 || true
q volume create "v$escape" --size 1M >/dev/null 2>&1 || true
q key add --label "$escape" --new-password-file <(echo another) >/dev/null 2>&1 || true
first=$(q snapshots --json | grep -o '"short_id":"[0-9a-f]*"' | sed -n 1p | cut -d'"' -f4)
wild() { LC_ALL=C grep -aq $'\e]0\|\e\\[2J\|\a\|\xe2\x80\xae\|\xc2\x9b' "$@"; }
# On a terminal, and where what is said goes to a file that somebody reads on one.
tries() {
    local how
    for how in terminal file; do
        case $how in
        terminal) script -qec "$(printf '%q ' "$QUINTET" "$@")" "$dir/typed" >/dev/null 2>&1 </dev/null || true ;;
        file) q "$@" >/dev/null 2>"$dir/typed" </dev/null || true ;;
        esac
        ! wild "$dir/typed" || fail "$how: $* lets names move the cursor: $(cat -v "$dir/typed")"
    done
}
tries snapshots
q snapshots >"$dir/list"
! wild "$dir/list" || fail "the table of snapshots has escapes: $(cat -v "$dir/list")"
grep -q 'u{1b}' "$dir/list" || fail "the names are not there: $(cat "$dir/list")"
for command in "ls latest" "ls -l latest" "find *" "diff $first latest" status stats "stats latest" check "key list" "volume list" \
    "forget -n --keep-last 1" "restore latest -n -v --target $dir/back" "backup -v $src" "snapshots nothing$escape" \
    "volume delete no$escape" "restore latest:$escape/no --target $dir/back" "tag --add $escape latest" "copy --to $dir/no$escape latest" \
    "mount $dir/no$escape" "export no$escape $dir/raw"; do
    set -f
    # shellcheck disable=SC2086
    tries $command
    set +f
done
tries -r "$dir/no$escape" snapshots
# Exactly, for programs.
q find '*' >"$dir/list"
wild "$dir/list" || fail "find changes names for programs"
sound
