#!/usr/bin/env bash
# An export or dump that fails, is interrupted or killed leaves no file under the name that was asked for.
. "$(dirname "$0")/common.sh"
noise "$dir/disk" 40
new_pool
exits 0 q import "$dir/disk" disk
exits 0 q export disk "$dir/whole"
cmp "$dir/disk" "$dir/whole" || fail "export"
exits 1 q export disk "$dir/whole"
echo mine >"$dir/mine" && chmod 640 "$dir/mine"
# Killed while it writes: the name is not there, and what is there says what it is.
"$QUINTET" export disk "$dir/killed" >/dev/null 2>&1 &
exporting=$!
until compgen -G "$dir/.killed.quintet-unfinished-*" >/dev/null || ! kill -0 $exporting 2>/dev/null; do :; done
kill -9 $exporting 2>/dev/null && wait $exporting 2>/dev/null || true
[ ! -e "$dir/killed" ] || cmp "$dir/disk" "$dir/killed" || fail "a killed export left a file that is not whole"
rm -f "$dir"/.killed.quintet-unfinished-*
lost=$(find "$pool/containers" -type f -size +12M | sort | sed -n 2p)
[ -n "$lost" ] || fail "no second container"
rm "$lost" && rm -f "$pool/mirror/${lost#"$pool/"}"
exits 21 q export disk "$dir/exported"
exits 21 q export --force disk "$dir/mine"
[ "$(cat "$dir/mine")" = mine ] || fail "a failed export took a file that was there"
exits 21 q dump disk --target "$dir/dumped"
if command -v qemu-img >/dev/null; then
    exits 21 q export -f qcow2 disk "$dir/exported.qcow2"
fi
left=$(find "$dir" -maxdepth 1 \( -name 'exported*' -o -name '*unfinished*' -o -name dumped \))
[ -z "$left" ] || fail "left behind: $left"
