#!/usr/bin/env bash
# --stdin and --stdin-from-command: the same bytes out; a command that fails stores nothing.
. "$(dirname "$0")/common.sh"
new_pool
noise "$dir/noise" 8
q backup --stdin --stdin-filename db.sql <"$dir/noise" >/dev/null
q dump db.sql@latest >"$dir/back"
cmp "$dir/noise" "$dir/back"
exits 0 q backup --stdin-filename copy --stdin-from-command -- cat "$dir/noise"
q dump copy@latest | cmp - "$dir/noise"
[ "$(snapshots)" -eq 2 ] || fail "$(snapshots) snapshots"
exits 1 q backup --stdin-filename bad --stdin-from-command -- sh -c "cat '$dir/noise'; exit 4"
[ "$(snapshots)" -eq 2 ] || fail "a failed command left a snapshot"
exits 1 q backup --stdin-filename bad --stdin-from-command -- "$dir/no-such-command"
q backup --stdin --stdin-filename empty </dev/null >/dev/null
[ -z "$(q dump empty@latest)" ] || fail "an empty stream has bytes"
[ "$(stored_bytes)" -lt 10000000 ] || fail "the same stream was stored twice: $(stored_bytes)"
# A reader that goes away is no failure that anyone should see as success of all.
q dump db.sql@latest | head -c 10 >/dev/null || true
sound
