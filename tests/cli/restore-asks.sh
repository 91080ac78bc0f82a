#!/usr/bin/env bash
# On a terminal restore shows what it would replace and remove, and asks, unless --overwrite or --yes says; scripts go on.
. "$(dirname "$0")/common.sh"
requires python3
mkdir "$dir/src" && echo new >"$dir/src/file" && echo same >"$dir/src/other"
new_pool
exits 0 q backup "$dir/src"
cat >"$dir/terminal.py" <<'PY'
import os, pty, select, sys
# terminal.py ANSWER COMMAND...: runs it on a terminal of its own; prints what it showed.
answer, shown, answered = sys.argv[1], b"", False
child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
while True:
    try:
        ready, _, _ = select.select([terminal], [], [], 60)
        data = os.read(terminal, 4096) if ready else b""
    except OSError:
        data = b""
    if not data:
        break
    shown += data
    if b"[y/N]" in shown and not answered:
        os.write(terminal, answer.encode() + b"\n")
        answered = True
sys.stdout.write(shown.decode(errors="replace"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
PY
there() {
    rm -rf "$dir/t" && mkdir "$dir/t" && echo old >"$dir/t/file" && echo extra >"$dir/t/extra"
}
there
exits 1 python3 "$dir/terminal.py" n "$QUINTET" restore "latest:$dir/src" --target "$dir/t" --delete
says "replace $dir/t/file"
says "remove $dir/t/extra"
says "Replace 1 name and remove 1 name in $dir/t?"
[ "$(cat "$dir/t/file")" = old ] && [ -e "$dir/t/extra" ] && [ ! -e "$dir/t/other" ] || fail "no is no"
exits 1 python3 "$dir/terminal.py" "" "$QUINTET" restore "latest:$dir/src" --target "$dir/t"
[ "$(cat "$dir/t/file")" = old ] || fail "an empty answer is no"
exits 0 python3 "$dir/terminal.py" yes "$QUINTET" restore "latest:$dir/src" --target "$dir/t" --delete
[ "$(cat "$dir/t/file")" = new ] && [ ! -e "$dir/t/extra" ] || fail "yes is yes"
for told in --yes "--overwrite always"; do
    there
    # shellcheck disable=SC2086
    exits 0 python3 "$dir/terminal.py" n "$QUINTET" restore "latest:$dir/src" --target "$dir/t" $told
    ! grep -q 'y/N' "$dir/out" || fail "asked although $told was given"
    [ "$(cat "$dir/t/file")" = new ] || fail "$told restored nothing"
done
exits 0 python3 "$dir/terminal.py" n "$QUINTET" restore "latest:$dir/src" --target "$dir/empty"
! grep -q 'y/N' "$dir/out" || fail "asked about nothing"
there
exits 0 q restore "latest:$dir/src" --target "$dir/t"
says "1 of them replaced existing files"
