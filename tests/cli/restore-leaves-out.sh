#!/usr/bin/env bash
# Restoring other people's trees: --no-owner, --no-setuid, --no-devices and --no-xattrs leave out what they say, and it is said.
. "$(dirname "$0")/common.sh"
requires_root
mkdir "$dir/src" && cd "$dir/src"
echo program >program && chown 12345:12345 program && chmod 6755 program
echo ours >ours && chmod 4755 ours
mkdir shared && chown 12345 shared && chmod 2770 shared
mknod null c 1 3 && mknod loop b 7 0 && mkfifo pipe
attributes=
if command -v setfattr >/dev/null && setfattr -n user.a -v 1 program 2>/dev/null; then attributes=yes; fi
mode() { stat -c '%u %a' "$@"; }
new_pool
exits 0 q backup "$dir/src"
exits 0 q restore "latest:$dir/src" --target "$dir/all"
[ "$(mode "$dir/all/program")" = "12345 6755" ] || fail "$(mode "$dir/all/program")"
exits 0 q restore "latest:$dir/src" --target "$dir/no-owner" --no-owner
[ "$(mode "$dir/no-owner/program")" = "0 755" ] || fail "a foreign program runs as root: $(mode "$dir/no-owner/program")"
[ "$(mode "$dir/no-owner/ours")" = "0 4755" ] || fail "$(mode "$dir/no-owner/ours")"
exits 0 q restore "latest:$dir/src" --target "$dir/no-setuid" --no-setuid
[ "$(mode "$dir/no-setuid/program")" = "12345 755" ] || fail "$(mode "$dir/no-setuid/program")"
[ "$(mode "$dir/no-setuid/ours")" = "0 755" ] || fail "$(mode "$dir/no-setuid/ours")"
[ "$(mode "$dir/no-setuid/shared")" = "12345 2770" ] || fail "set-group-ID of a directory only says who owns its files"
exits 0 q restore "latest:$dir/src" --target "$dir/no-devices" --no-devices --verify
[ -p "$dir/no-devices/pipe" ] && [ ! -e "$dir/no-devices/null" ] && [ ! -e "$dir/no-devices/loop" ] || fail "$(ls -l "$dir/no-devices")"
says "no-devices/null: a device, left out"
says "no-devices/loop: a device, left out"
says "^2 devices left out"
# What is there under such a name is none of its business.
echo mine >"$dir/no-devices/null"
exits 0 q restore "latest:$dir/src" --target "$dir/no-devices" --no-devices --delete
[ "$(cat "$dir/no-devices/null")" = mine ] || fail "a file in a device's place was touched"
[ -n "$attributes" ] || skip "no user attributes here; the rest passed"
exits 0 q restore "latest:$dir/src" --target "$dir/no-xattrs" --no-xattrs
[ -n "$(getfattr --absolute-names -d "$dir/all/program")" ] || fail "attributes were lost"
[ -z "$(getfattr --absolute-names -d "$dir/no-xattrs/program")" ] || fail "attributes were restored"
