#!/usr/bin/env bash
# Who gives a password, or has seen the pool encrypted, is never served one that is not encrypted, unless he says so:
# in backup, restore, copy, with a replica and through a server. Nothing is stored or restored before.
# Sealed: encryption is its subject.
. "$(dirname "$0")/common.sh"
sealed
mkdir "$dir/src" && echo 'private words' >"$dir/src/file"
new_pool
exits 0 q backup "$dir/src"
swapped() { mv "$pool" "$dir/true" && mv "$dir/clear" "$pool"; }
back() { mv "$pool" "$dir/clear" && mv "$dir/true" "$pool"; }
refused() {
    exits 12 "$@"
    says 'not encrypted'
    says 'insecure-no-password'
    [ "$(cd "$pool" && find . -type f | sort | xargs cat | cksum)" = "$before" ] || fail "$*: the pool changed"
}
# Without a memory of its own: what is made here is not what the victim's machine knows.
QUINTET_CACHE_DIR=$dir/attacker QUINTET_REPOSITORY=$dir/clear exits 0 q init --no-encryption
(unset QUINTET_PASSWORD && QUINTET_CACHE_DIR=$dir/attacker QUINTET_REPOSITORY=$dir/clear exits 0 q backup "$dir/src")
swapped
before=$(cd "$pool" && find . -type f | sort | xargs cat | cksum)
refused q backup "$dir/src"
refused q restore latest --target "$dir/back"
[ ! -e "$dir/back" ] || fail "something was restored"
refused q snapshots
refused q check
refused q gc
# Every way to give a secret.
echo 'correct horse' >"$dir/password" && chmod 600 "$dir/password"
for way in "--password-file $dir/password" "--password-command cat\\ $dir/password"; do
    eval "QUINTET_PASSWORD= refused q $way backup $dir/src"
done
QUINTET_PASSWORD= QUINTET_PASSPHRASE_FD=7 refused q backup "$dir/src" 7<"$dir/password"
# No secret was given, but this machine has seen the pool encrypted.
QUINTET_PASSWORD= refused q backup "$dir/src"
says 'last saw it'
QUINTET_PASSWORD= exits 12 q --json snapshots
says '"code":12'
# Who says it gets it.
exits 0 q --insecure-no-password backup "$dir/src"
says 'no longer encrypted'
back
# The true pool is refused to who says that it is not encrypted.
QUINTET_PASSWORD= exits 12 q --insecure-no-password snapshots
exits 0 q snapshots
[ ! -s "$dir/err" ] || fail "the true pool is as it was: $(cat "$dir/err")"

# The same for a pool that receives, and for a replica.
other_pool
new_other_pool
exits 0 q copy --all
mv "$other" "$dir/true-other"
cp -a "$dir/clear" "$other"
exits 12 q copy --all
says 'to-insecure-no-password'
exits 12 q copy --all --to "$other"
QUINTET_REPLICA_PASSWORD=$QUINTET_TO_PASSWORD exits 12 q scrub --replica "$other"
says 'replica-insecure-no-password'
exits 12 q repair --replica "$other" </dev/null
exits 0 q copy --all --to-insecure-no-password

# Through a server of a pool that is not encrypted.
rm -rf "$other" && mv "$pool" "$dir/true" && mv "$dir/clear" "$pool"
QUINTET_PASSWORD= exits 12 q serve
start_server --insecure-no-password
exits 12 q backup "$dir/src"
QUINTET_PASSWORD= exits 0 q --insecure-no-password backup "$dir/src"
kill "$server" && wait "$server" || true
server=
