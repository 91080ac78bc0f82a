#!/usr/bin/env bash
# A minimum trash period: whoever has only the password cannot make gc delete what was forgotten, and cannot shorten it,
# also not with a recovery key that he makes; the recovery key from before can.
# Sealed: the recovery key decides.
. "$(dirname "$0")/common.sh"
sealed
mkdir "$dir/src" && noise "$dir/src/file" 1
exits 0 q init --recovery-key-file "$dir/recovery"
exits 0 q backup "$dir/src"
exits 0 q gc --set-trash-minimum 30d
id=$(q snapshots --json | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p' | head -n 1)
exits 0 q forget "$id"
for _ in 1 2 3; do
    exits 0 q gc --trash-period 0
    says 'at least'
done
exits 0 q undelete "$id"
exits 0 q restore "$id:$dir/src" --target "$dir/back"
same "$dir/src" "$dir/back"
# Only the password.
exits 12 q gc --set-trash-minimum 0
says 'recovery key'
exits 0 q key recovery "$dir/thief" --label thief
QUINTET_PASSWORD= exits 12 q --key-file "$dir/thief" gc --set-trash-minimum 29d
exits 0 q gc --set-trash-minimum 31d
exits 12 q gc --set-trash-minimum 30d
# The same through a server.
start_server
exits 12 q gc --set-trash-minimum 0
QUINTET_PASSWORD= exits 12 q --key-file "$dir/thief" gc --set-trash-minimum 0
exits 0 q forget "$id"
exits 0 q gc --trash-period 0
exits 0 q gc --trash-period 0
exits 0 q undelete "$id"
QUINTET_PASSWORD= exits 0 q --key-file "$dir/recovery" gc --set-trash-minimum 0
kill "$server" && wait "$server"
server=
exits 0 q forget "$id"
exits 0 q gc --trash-period 0
exits 0 q gc --trash-period 0
exits 1 q undelete "$id"
# A pool that has no recovery key could never shorten it.
rm -rf "$pool"
exits 0 q init
exits 1 q gc --set-trash-minimum 1d
says 'key recovery'
