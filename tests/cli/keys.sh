#!/usr/bin/env bash
# Several passwords and a recovery key open the same pool; the last one stays.
# Sealed: passwords and keys are its subject.
. "$(dirname "$0")/common.sh"
sealed
mkdir "$dir/src" && echo x >"$dir/src/x"
exits 0 q init --recovery-key-file "$dir/recovery"
[ "$(stat -c %a "$dir/recovery")" = 600 ] || [ "$(stat -c %a "$dir/recovery")" = 400 ] || fail "the recovery key is $(stat -c %a "$dir/recovery")"
exits 0 q backup "$dir/src"
echo second >"$dir/second"
exits 0 q key add --new-password-file "$dir/second" --label other
QUINTET_PASSWORD=second exits 0 q snapshots
exits 0 q key list
says other
says 'Version'
exits 0 q key list --json
[ "$(grep -c '"version":2' "$dir/out")" = 3 ] || fail "$(cat "$dir/out")"
echo third >"$dir/third"
exits 0 q key passwd --new-password-file "$dir/third"
exits 12 q snapshots
QUINTET_PASSWORD=third exits 0 q snapshots
QUINTET_PASSWORD=second exits 0 q snapshots
QUINTET_PASSWORD= exits 0 q --key-file "$dir/recovery" snapshots
QUINTET_PASSWORD= exits 0 q --password-file "$dir/second" snapshots
# However another system wrote it.
printf '\357\273\277second\r\n' >"$dir/marked"
QUINTET_PASSWORD= exits 0 q --password-file "$dir/marked" snapshots
QUINTET_PASSWORD= QUINTET_PASSWORD_COMMAND="cat $dir/marked" exits 0 q snapshots
QUINTET_PASSWORD=$(cat "$dir/marked") exits 0 q snapshots
QUINTET_PASSWORD=$'second\nthird' exits 1 q snapshots
says "several lines"
QUINTET_PASSWORD= QUINTET_PASSWORD_COMMAND="cat $dir/second" exits 0 q snapshots
QUINTET_PASSWORD= QUINTET_PASSWORD_FILE=$dir/second exits 0 q restore "latest:$dir/src" --target "$dir/t"
# No plain text in the pool's files.
noise "$dir/src/noise" 1
printf 'a secret that must not be readable' >"$dir/src/secret"
QUINTET_PASSWORD=second exits 0 q backup --compression none "$dir/src"
! grep -rqa 'must not be readable' "$pool" || fail "plain text in an encrypted pool"
[ -z "$(find "$pool" -type d ! -perm 0700)" ] || fail "directories are not 0700: $(find "$pool" -type d ! -perm 0700)"
[ -z "$(find "$pool" -type f -perm /077)" ] || fail "files are readable by others"
