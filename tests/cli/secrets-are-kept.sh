#!/usr/bin/env bash
# A password file that others can read is warned of; a process with keys leaves no core dump and shows
# its memory to nobody.
# Sealed: passwords and keys in memory are its subject.
. "$(dirname "$0")/common.sh"
sealed
new_pool
echo 'correct horse' >"$dir/password"
for mode in 644 640 604; do
    chmod $mode "$dir/password"
    QUINTET_PASSWORD= exits 0 q --password-file "$dir/password" snapshots
    says "0$mode.*chmod 600"
done
for mode in 600 400; do
    chmod $mode "$dir/password"
    QUINTET_PASSWORD= exits 0 q --password-file "$dir/password" snapshots
    [ ! -s "$dir/err" ] || fail "mode $mode is private: $(cat "$dir/err")"
done
exits 0 q key recovery "$dir/recovery"
chmod 644 "$dir/recovery"
QUINTET_PASSWORD= exits 0 q --key-file "$dir/recovery" snapshots
says 'other users can read'

# Another process of the same user, without privileges, may neither trace it nor read its memory.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$dir"
    cp "$QUINTET" "$dir/quintet" && chmod 755 "$dir/quintet"
    # No function: the process of one in the background is a shell.
    as=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all)
    mkdir "$dir/his" && chown 65534:65534 "$dir/his"
    export QUINTET_REPOSITORY=$dir/his/pool QUINTET_CACHE_DIR=$dir/his/cache
    "${as[@]}" "$dir/quintet" init >/dev/null
    "${as[@]}" "$dir/quintet" serve >"$dir/serve" 2>&1 &
    server=$!
    wait_until is_serving
    [ "$(readlink "/proc/$server/exe")" = "$dir/quintet" ] || fail "process $server is not the server"
    ! "${as[@]}" cat "/proc/$server/maps" >/dev/null 2>&1 || fail "the memory of a server is open to others"
    kill -ABRT "$server" && wait "$server" || true
    server=
    [ -z "$(find "$dir" . -maxdepth 1 -name 'core*' -newer "$dir/serve" 2>/dev/null)" ] || fail "a core dump"
fi
