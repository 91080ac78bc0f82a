#!/usr/bin/env bash
# --stdin and --stdin-from-command: the same bytes out; a command that fails stores nothing, nor does one that writes nothing.
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
# The cause is told, and in JSON the text is a field.
exits 1 q backup --stdin-filename bad --stdin-from-command -- sh -c 'echo no route to db >&2; exit 4'
says "nothing was stored: sh failed (exit status: 4): no route to db"
exits 1 q --json backup --stdin-filename bad --stdin-from-command -- sh -c 'echo no "route" >&2; exit 4'
[ "$(grep -vc '^{"message_type"' "$dir/err")" -eq 0 ] || fail "loose lines: $(cat "$dir/err")"
says '"helper_output":"no route\\n"'
exits 0 q --json backup --stdin-filename words --stdin-from-command -- sh -c 'echo careful >&2; echo data'
says '"message_type":"helper_output","program":"sh","text":"careful\\n"'
[ ! -s "$dir/err" ] || fail "$(cat "$dir/err")"
# What never came is no state.
exits 1 q backup --stdin --stdin-filename empty
says "allow-empty"
(exits 1 q backup --stdin --stdin-filename db.sql <&-)
exits 1 bash -c '"$QUINTET" backup --stdin --stdin-filename db.sql <&-'
says "nothing was stored"
exits 1 q backup --stdin-filename bad --stdin-from-command -- true
says "true wrote nothing"
[ "$(snapshots)" -eq 3 ] || fail "an empty stream was stored"
exits 0 q backup --stdin --stdin-filename empty --allow-empty
[ -z "$(q dump empty@latest)" ] || fail "an empty stream has bytes"
# status remembers what failed, until a run stores something. What never was there can be dismissed.
exits 3 q status
says "bad: the last run, .*Z, stored nothing"
says "db.sql: the last run"
q backup -q --stdin --stdin-filename db.sql <"$dir/noise"
exits 3 q status
! grep -q 'db.sql: the last' "$dir/out" || fail "db.sql has come"
rm "$pool/cache/failed-streams"
exits 0 q status
# A small part of what was there before.
head -c 100000 "$dir/noise" | q backup -q --stdin --stdin-filename db.sql
exits 3 q status
says "db.sql: the newest state has 100000 bytes, one shortly before had 8388608 bytes"
exits 0 q backup --stdin-filename db.sql --stdin-from-command -- cat "$dir/noise"
exits 0 q status
# Colons are part of a name; an @ is not, nor is what moves a cursor.
exits 0 q backup --stdin-filename db:x --stdin-from-command -- echo colon
[ "$(q dump db:x)" = colon ] && [ "$(q dump db:x@latest)" = colon ] || fail "db:x"
for name in a@b $'a\eb' $'a\nb' ""; do
    exits 1 q backup --stdin-filename "$name" --stdin-from-command -- echo x
    says "cannot be the name of a stream"
done
[ "$(stored_bytes)" -lt 10000000 ] || fail "the same stream was stored twice: $(stored_bytes)"
# A reader that goes away is no failure that anyone should see as success of all.
q dump db.sql@latest | head -c 10 >/dev/null || true
sound
