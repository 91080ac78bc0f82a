#!/usr/bin/env bash
# A dry run reads what it must know, and neither unchanged files nor stored data: counted in bytes that it asks the
# system for. With --force a backup would read the files, and still a dry run does not.
. "$(dirname "$0")/common.sh"
requires python3
[ -r /proc/self/io ] || skip "/proc/self/io is missing"
mkdir "$dir/src"
noise "$dir/src/large" 48
noise "$dir/image" 48
new_pool
other_pool
new_other_pool
exits 0 q backup "$dir/src"
exits 0 q import -f raw "$dir/image" disk
exits 0 q forget latest
exits 0 q import -f raw --force "$dir/image" disk
exits 0 q copy --all

cat >"$dir/count.py" <<'P'
import os, sys
# count.py COMMAND...: runs it, and prints how many bytes it asked the system for.
null = os.open("/dev/null", os.O_RDWR)
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[
    (os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, 2, 1)])
# Its counts are there until it is waited for.
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
counts = dict(line.split(": ") for line in open(f"/proc/{child}/io").read().splitlines())
print(counts["rchar"])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
P

# reads BYTES COMMAND...: fails unless the command succeeds and reads at most so much.
reads() {
    local most=$1 bytes
    shift
    bytes=$(python3 "$dir/count.py" "$QUINTET" "$@" 2>"$dir/err") || fail "$*: $(cat "$dir/err")"
    echo "$*: $bytes bytes"
    [ "$bytes" -le "$most" ] || fail "$* read $bytes bytes, at most $most were expected"
}
little=$((2 << 20))
reads $little backup -n "$dir/src"
reads $little backup -n --force "$dir/src"
touch "$dir/src/large"
reads $little backup -n "$dir/src"
reads $little import -n -f raw "$dir/image" disk
reads $little import -n -f raw --force "$dir/image" disk
reads $little forget -n --keep-last 1
reads $little gc -n
reads $little copy -n --all

# The count sees what is read.
if (reads $little check --read-data) >/dev/null; then fail "a check of all data is not counted"; fi
