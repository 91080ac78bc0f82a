#!/usr/bin/env bash
# All copies of the newest root are damaged: the commit before is the pool, it is said (exit code 21 for
# whatever depends on it), and work goes on.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src" && echo one >"$dir/src/file"
new_pool
exits 0 q backup "$dir/src"
echo two >"$dir/src/file"
exits 0 q backup "$dir/src"
root=$(basename "$(find "$pool/roots" -type f | sort | tail -n 1)")
for copy in "$pool/roots/$root" "$pool/mirror/roots/$root"; do
    head -c 1024 /dev/zero >"$copy"
done
older=$(q snapshots --json 2>/dev/null | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p') || true
exits 21 q snapshots
says "root"
says "newer snapshots may be lost"
[ "$(snapshots)" -eq 1 ] || fail "$(snapshots) snapshots"
exits 21 q check
# The one before is not quietly the latest; called by its own name it is what it is.
exits 21 q restore "latest:$dir/src" --target "$dir/back"
says "the latest readable one is ${older:0:8}"
for command in "ls latest" "dump latest $dir/src/file" "find file -s latest" "find file" "diff $older latest"; do
    # shellcheck disable=SC2086
    exits 21 q $command
done
exits 0 q restore "$older:$dir/src" --target "$dir/named"
# What changes something does not change the one before instead.
exits 21 q forget latest --dry-run
exits 21 q forget latest
exits 21 q tag --add t latest
exits 21 q volume clone disk copy
[ "$(cat "$dir/back/file")" = one ] || fail "the older snapshot is not what it was"
exits 0 q backup "$dir/src"
[ "$(snapshots)" -eq 2 ] || fail "$(snapshots) snapshots after a new backup"
exits 0 q restore "latest:$dir/src" --target "$dir/back2"
[ "$(cat "$dir/back2/file")" = two ] || fail "the new snapshot is not what was stored"
exits 0 q snapshots
# Without any commit nobody is told to make the pool anew.
rm -r "$pool"/roots/* "$pool"/mirror/roots/*
exits 21 q snapshots
says "do not init here"
! grep -q "run quintet init again" "$dir/err" || fail "$(cat "$dir/err")"
