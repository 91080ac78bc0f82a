#!/usr/bin/env bash
# `rewrite` makes snapshots without some files, or with another host or time: hard links, counts and directories that stay
# are right, no contents are stored again, the old snapshot stays unless --forget sends it to the trash, and everything
# that cannot be rewritten is refused. Alone, and by a server.
. "$(dirname "$0")/common.sh"
new_pool
mkdir -p "$dir/src/keep/below" "$dir/src/out/below"
noise "$dir/src/keep/below/large" 3
echo secret >"$dir/src/secret.key"
echo SECRET >"$dir/src/keep/OTHER.KEY"
noise "$dir/src/out/below/iso" 1
ln "$dir/src/out/below/iso" "$dir/src/keep/iso"
ln -s nowhere "$dir/src/keep/link"
exits 0 q backup "$dir/src" --host old --tag t
old=$(q snapshots --json | sed -n 's/.*"id":"\([0-9a-f]*\)","short_id".*/\1/p')
before=$(stored_bytes)

# new FIELD: of the newest rewritten snapshot.
field() {
    grep '"message_type":"rewritten"' "$dir/out" | sed -n "s/.*\"$1\":\"\\{0,1\\}\\([^\",}]*\\).*/\\1/p"
}
exits 1 q rewrite latest
says "give --exclude, --host or --time"
exits 0 q rewrite latest --exclude '*.key' -n
says "leave out .*/src/secret.key"
says "would be rewritten"
[ "$(snapshots)" = 1 ] || fail "a dry run wrote"
exits 0 q rewrite latest --exclude nothing-like-this
says "nothing matches, no new snapshot"
[ "$(snapshots)" = 1 ] || fail "a snapshot for nothing"

exits 0 q rewrite latest --exclude "$dir/src/out" --iexclude '*.key' --host new --json
id=$(field id)
[ "$(field from) $(field original)" = "$old $old" ] || fail "$(cat "$dir/out")"
[ "$(field files) $(field hostname)" = "3 new" ] || fail "$(cat "$dir/out")"
[ "$(field logical_bytes)" = $((4 << 20)) ] || fail "$(cat "$dir/out")"
[ $(($(stored_bytes) - before)) -lt 200000 ] || fail "contents were stored again"
[ "$(snapshots)" = 2 ] || fail "the old snapshot must stay"
exits 0 q restore "latest:$dir/src" --target "$dir/back"
rm "$dir/src/secret.key" "$dir/src/keep/OTHER.KEY"
[ ! -e "$dir/back/out" ] && [ ! -e "$dir/back/secret.key" ] && [ ! -e "$dir/back/keep/OTHER.KEY" ] || fail "left out?"
cmp "$dir/src/keep/iso" "$dir/back/keep/iso" || fail "a hard link whose first name is left out"
cmp "$dir/src/keep/below/large" "$dir/back/keep/below/large" || fail "contents"
[ "$(stat -c '%Y %a' "$dir/src/keep/below")" = "$(stat -c '%Y %a' "$dir/back/keep/below")" ] || fail "metadata"
exits 0 q restore "$old:$dir/src" --target "$dir/old"
cmp "$dir/src/keep/iso" "$dir/old/out/below/iso" || fail "the old snapshot"
# A snapshot of a rewritten one knows the first; the tags stay.
exits 0 q rewrite "$id" --time '2026-01-02 03:04' --json
[ "$(field original)" = "$old" ] || fail "$(cat "$dir/out")"
says '"time":"2026-01-02'
says '"tags":\["t"\]'
exits 1 q rewrite --all --time '2026-01-02 03:04'
says "name one snapshot"

# --forget, and back.
exits 0 q rewrite "$old" --exclude out --forget
exits 1 q ls "$old"
exits 0 q undelete "$old"
exits 0 q rewrite --all --exclude nothing-like-this
says "0 snapshots rewritten"

# Images have no files, and a state of a volume is what its name says.
noise "$dir/image" 1
exits 0 q import "$dir/image" disk
image=$(q snapshots --json --path disk | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p')
exits 1 q rewrite "$image" --exclude a
says "has no files to exclude"
exits 0 q rewrite "$image" --host elsewhere
exits 0 q export -f raw disk@latest "$dir/exported"
cmp "$dir/image" "$dir/exported" || fail "the image"
exits 0 q volume create vol --size 1M
exits 0 q volume snapshot vol@one
exits 1 q rewrite vol@one --host elsewhere
says "a state of a volume"
sound

# By a server, with a list of patterns that is the client's.
echo '*.key' >"$dir/patterns"
start_server
exits 0 q rewrite "$old" --exclude-file patterns --exclude '**/below'
exits 0 q ls -R latest
! grep -q 'secret.key\|below' "$dir/out" || fail "$(cat "$dir/out")"
q rewrite "$old" --exclude-file - <patterns >"$dir/out" 2>&1 || fail "a list from standard input: $(cat "$dir/out")"
says "1 snapshot rewritten"
stop_server
exits 0 q gc --trash-period 0
sound
