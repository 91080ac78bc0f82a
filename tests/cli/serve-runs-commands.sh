#!/usr/bin/env bash
# While a server holds the pool every command works, with the user's directory, variables, streams and
# exit codes; also when the pool's path is longer than a socket's address.
# Sealed: a server must not lend its key to who gives no password.
. "$(dirname "$0")/common.sh"
sealed
requires cmp
pool=$dir/$(printf 'a%.0s' {1..120})/pool
export QUINTET_REPOSITORY=$pool
mkdir -p "$dir/work/src"
echo one >"$dir/work/src/one"
new_pool
start_server
[ "$(stat -c %a "$pool/control")" = 600 ] || fail "the socket is open to others"
cd "$dir/work"
exits 0 q backup src --host from-here
says 'snapshot .* saved'
echo two >src/two
echo 'src/two' >list
exits 0 q backup --files-from list --tag listed
exits 0 q backup --json src
grep -q '"message_type":"summary"' "$dir/out" || fail "no summary"
noise "$dir/image" 3
exits 0 q import ../image disk
echo streamed | q backup --stdin --stdin-filename words >/dev/null
exits 0 env SAY=hello "$QUINTET" backup --stdin-from-command --stdin-filename said -- sh -c 'echo "$SAY $PWD"'
exits 0 q dump said@latest
[ "$(cat "$dir/out")" = "hello $dir/work" ] || fail "the command ran elsewhere: $(cat "$dir/out")"
exits 0 q dump words@latest
[ "$(cat "$dir/out")" = streamed ] || fail "$(cat "$dir/out")"
exits 0 q snapshots
says '6 snapshots'
exits 0 q tag --add kept latest
exits 0 q restore "latest:$dir/work/src" --target "$dir/restored"
cmp src/two "$dir/restored/two"
exits 0 q export disk "$dir/image.out"
cmp "$dir/image" "$dir/image.out"
# What goes wrong goes wrong in the same way.
exits 1 q backup nothing-of-the-kind
says 'none of the paths exists'
exits 1 q forget 0123456789abcdef
exits 1 q import ../image disk@x
exits 0 q forget --keep-last 1 --group-by host
says 'removed'
# Passwords: who has none may not make one, though the server has the pool open.
echo 'battery staple' >"$dir/new"
echo third >"$dir/third"
exits 12 env QUINTET_PASSWORD=wrong "$QUINTET" key add --new-password-file "$dir/new"
exits 0 q key add --new-password-file "$dir/new" --label second
exits 0 env QUINTET_PASSWORD='battery staple' "$QUINTET" key passwd --new-password-file ../third
exits 12 env QUINTET_PASSWORD='battery staple' "$QUINTET" snapshots
exits 0 env QUINTET_PASSWORD=third "$QUINTET" snapshots
exits 0 q snapshots
sound
stop_server
exits 0 q backup src
sound
