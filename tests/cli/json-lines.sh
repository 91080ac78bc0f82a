#!/usr/bin/env bash
# With --json every line of every command is one JSON object with a message_type.
# Sealed: keys are among what is listed.
. "$(dirname "$0")/common.sh"
sealed
requires python3
mkdir "$dir/src" && noise "$dir/src/noise" 1 && echo x >"$dir/src/$(printf 'odd\377')"
exits 0 q --json init
cp "$dir/out" "$dir/all"
lines() {
    exits 0 q --json "$@"
    cat "$dir/out" >>"$dir/all"
    [ -s "$dir/out" ] || fail "no output: $*"
}
lines backup "$dir/src"
lines import "$dir/src/noise" disk
lines snapshots
lines ls -R latest:"$dir"
lines find noise
lines backup "$dir/src"
lines stats
lines status
lines check --read-data
lines key list
lines tag --add t latest
lines restore "latest:$dir/src" --target "$dir/back"
lines forget --keep-last 1 --dry-run
python3 - "$dir/all" <<'P'
import json, sys
for line in open(sys.argv[1]):
    message = json.loads(line)
    assert next(iter(message)) == "message_type", line
P
