#!/usr/bin/env bash
# A snapshot that lacks files, or has files that changed while they were read, says so wherever it is shown, and is
# told apart from one that is whole.
. "$(dirname "$0")/common.sh"
mkdir -p "$dir/src"
echo one >"$dir/src/one" && echo two >"$dir/src/two"
new_pool
exits 0 q backup "$dir/src"
exits 0 q snapshots
! grep -q incomplete "$dir/out" || fail "$(cat "$dir/out")"

# A file that grows while it is read.
noise "$dir/src/log" 60
touch "$dir/grow"
while [ -e "$dir/grow" ]; do
    echo more >>"$dir/src/log"
    sleep 0.002
done &
growing=$!
exits 3 q backup "$dir/src"
rm "$dir/grow"
wait $growing
says 'log changed while it was read'
says '0 not read'
says '1 file changed while being read'
exits 0 q snapshots
says 'incomplete: 1 changed while being read'
! grep -q 'not read' "$dir/out" || fail "$(cat "$dir/out")"
exits 0 q snapshots --json
says '"complete":false,"files_unread":0,"files_changed_while_read":1'
says '"complete":true'
exits 0 q stats
says '1 of them incomplete'
# Logs grow: that is no alarm, and not forgotten either.
exits 0 q status
says 'state: ONLINE'
says 'note: .*1 file changed while being read'
exits 0 q status --json
says '"kind":"files_changed","severity":"hint"'
# The next one is whole, and all is well.
exits 0 q backup "$dir/src"
exits 0 q status
exits 0 q restore latest --target "$dir/back"
! grep -q incomplete "$dir/err" || fail "$(cat "$dir/err")"

# One that cannot be read.
requires_root
requires setpriv
chmod 0755 "$dir"
chmod 0000 "$dir/src/two"
mkdir "$dir/theirs" && chown -R 65534:65534 "$dir/theirs" "$dir/src"
export QUINTET_REPOSITORY=$dir/theirs/pool
cp "$QUINTET" "$dir/quintet" && chmod 0755 "$dir/quintet"
q() { setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$dir/quintet" "$@"; }
new_pool
exits 3 q backup "$dir/src"
says '1 not read'
exits 0 q snapshots
says 'incomplete: 1 not read'
exits 3 q status
says 'state: DEGRADED'
says 'the newest snapshot is incomplete: 1 not read'
says 'forget its only snapshot: quintet forget [0-9a-f]'
# Owners are not for this user to set.
exits 3 q restore latest --target "$dir/theirs/back"
says 'incomplete: 1 not read'
exits 0 q tag --add checked latest
exits 0 q snapshots
says 'incomplete: 1 not read'
# What will never be backed up again can be dismissed.
exits 0 q forget latest
exits 0 q status
