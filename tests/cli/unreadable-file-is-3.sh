#!/usr/bin/env bash
# A file that cannot be read is reported and the rest is stored: exit 3.
. "$(dirname "$0")/common.sh"
mkdir -p "$dir/src/closed"
echo one >"$dir/src/one" && echo two >"$dir/src/two" && echo three >"$dir/src/closed/three"
if [ "$(id -u)" -eq 0 ]; then
    requires setpriv
    chmod 0000 "$dir/src/two" "$dir/src/closed"
    chmod 0755 "$dir"
    mkdir "$dir/theirs" && chown -R 65534:65534 "$dir/theirs" "$dir/src"
    export QUINTET_REPOSITORY=$dir/theirs/pool
    cp "$QUINTET" "$dir/quintet" && chmod 0755 "$dir/quintet"
    q() { setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$dir/quintet" "$@"; }
else
    chmod 0000 "$dir/src/two" "$dir/src/closed"
fi
new_pool
exits 3 q backup "$dir/src"
says two
says closed
exits 0 q ls --recursive latest
says "src/one"
exits 0 q dump latest "$dir/src/one"
[ "$(cat "$dir/out")" = one ] || fail "the readable file was not stored"
exits 0 q check --read-data
