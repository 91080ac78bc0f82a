#!/usr/bin/env bash
# A password in the environment is that of the pool in the environment. `init` of another pool asks a terminal for its
# own, and says without one that both pools have the same.
. "$(dirname "$0")/common.sh"
requires python3
sealed
new_pool
second=$dir/second

# typed.py COMMAND...: runs it on a terminal, and types "its own" whenever it asks.
cat >"$dir/typed.py" <<'P'
import os, pty, sys
child, master = pty.fork()
if child == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
shown = b""
answered = 0
while True:
    try:
        piece = os.read(master, 4096)
    except OSError:
        break
    if not piece:
        break
    shown += piece
    while shown.count(b"assword: ") + shown.count(b"again: ") > answered:
        os.write(master, b"its own\n")
        answered += 1
print(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
P

# On a terminal: the password is asked for, twice.
timeout 60 python3 "$dir/typed.py" "$QUINTET" -r "$second" init >"$dir/shown" 2>&1 ||
    fail "init on a terminal: $(cat "$dir/shown")"
matches 'this pool gets one of its own' <"$dir/shown" || fail "it is not said: $(cat "$dir/shown")"
exits 12 q -r "$second" snapshots
QUINTET_PASSWORD='its own' exits 0 q -r "$second" snapshots
exits 0 q snapshots

# Without a terminal it is said; an option gives a password of its own, and says nothing.
exits 0 setsid -w "$QUINTET" -r "$dir/third" init
grep -q "the password is that of $pool" "$dir/err" || fail "it is not said: $(cat "$dir/err")"
exits 0 q -r "$dir/third" snapshots
(umask 077 && echo other >"$dir/password")
exits 0 setsid -w "$QUINTET" -r "$dir/fourth" --password-file "$dir/password" init
! grep -q 'the password is' "$dir/err" || fail "$(cat "$dir/err")"

# The same pool by another way, or no pool in the environment: nothing to say.
exits 0 setsid -w env -u QUINTET_REPOSITORY "$QUINTET" -r "$dir/fifth" init
! grep -q 'the password is' "$dir/err" || fail "$(cat "$dir/err")"

# A variable that names no pool is of no use to a command that an option gives one.
exits 0 setsid -w env -u QUINTET_REPOSITORY QUINTET_REPOSITORY_FILE="$dir/none" "$QUINTET" -r "$pool" snapshots
exits 0 setsid -w env QUINTET_REPOSITORY_FILE="$dir/none" "$QUINTET" -r "$pool" snapshots

# A message about a missing password names the options.
unset QUINTET_PASSWORD
exits 1 setsid -w "$QUINTET" snapshots
grep -q -- '--password-file FILE' "$dir/err" || fail "no option: $(cat "$dir/err")"
exits 1 setsid -w env QUINTET_PASSWORD='correct horse' "$QUINTET" copy --to "$second" --all
grep -q -- '--to-password-file FILE' "$dir/err" || fail "no option: $(cat "$dir/err")"
