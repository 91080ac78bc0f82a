#!/usr/bin/env bash
# A pool's directory belongs to another user, who puts links, FIFOs, devices and other users' files
# where root's commands look for the pool's own. Nothing outside is written, removed or waited for,
# and somebody says what is wrong.
# seconds: 600
. "$(dirname "$0")/common.sh"
requires_root
requires setpriv mkfifo mknod sha256sum
chmod 711 "$dir"
attacker() { setpriv --reuid 1234 --regid 1234 --clear-groups "$@"; }
mkdir "$dir/src" "$dir/outside" "$dir/outside/sub"
noise "$dir/src/file" 2
head -c 70000 /dev/urandom >"$dir/outside/file"
echo precious >"$dir/outside/sub/000000000000"
echo precious >"$dir/outside/other"
new_pool
exits 0 q backup "$dir/src"
exits 0 q volume create disk --size 1M
# Root goes on in a pool that belongs to somebody else: what it makes is the owner's.
chown -R 1234:1234 "$pool"
find "$pool" -type f | sort >"$dir/before"
exits 0 q backup --force "$dir/src"
exits 0 q gc --trash-period 0
find "$pool" -type f | sort | comm -13 "$dir/before" - >"$dir/new"
[ -s "$dir/new" ] || fail "root wrote nothing: the test tests less than it says"
[ -z "$(find "$pool" ! -uid 1234)" ] || fail "these are not the owner's: $(find "$pool" ! -uid 1234)"
cp -a "$pool" "$dir/clean"
cp -a "$dir/outside" "$dir/as-it-was"
state() { (cd "$1" && find . -printf '%p %y %m %U %s\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
state "$dir/outside" >"$dir/before"
# meets WHAT PATTERN: root works in the pool as it is now; somebody must say PATTERN.
meets() {
    local what=$1 pattern=$2 command code
    : >"$dir/said"
    for command in "backup $dir/src" "gc --trash-period 0" "scrub --quiet" "check" "status" "snapshots"; do
        code=0
        timeout --foreground -k 5 60 "$QUINTET" $command >"$dir/out" 2>"$dir/err" </dev/null || code=$?
        [ $code -ne 124 ] || fail "$what: $command never ends"
        [ $code -ne 101 ] && [ $code -lt 128 ] || fail "$what: $command died with $code: $(cat "$dir/err")"
        cat "$dir/out" "$dir/err" >>"$dir/said"
    done
    start_server </dev/null
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" || true
    server=
    cat "$dir/serve" >>"$dir/said"
    state "$dir/outside" >"$dir/after"
    diff "$dir/before" "$dir/after" >"$dir/diff" || fail "$what reached out of the pool: $(cat "$dir/diff")"
    grep -q "$pattern" "$dir/said" || fail "$what: nobody said \"$pattern\": $(sort -u "$dir/said")"
    [ -z "${VERBOSE:-}" ] || { echo "== $what"; sort "$dir/said" | uniq -c | grep "refused\|not a socket" | cut -c1-170 | head -n 4 || true; }
    rm -rf "$pool"
    cp -a "$dir/clean" "$pool"
}
# or_heals NAME WORDS: the words that must be said; the index is only a hint, and is made again
# without any.
or_heals() {
    case $1 in cache/fpi) echo . ;; *) echo "$2" ;; esac
}
# The user's own moves: links and FIFOs.
container=$(cd "$pool" && find containers -type f | sort | sed -n 1p)
root=$(cd "$pool" && find roots -type f | sort | tail -n 1)
for name in lock config cache/fpi "$container" "$root"; do
    attacker rm -f "$pool/$name"
    attacker ln -s "$dir/outside/file" "$pool/$name"
    meets "a link for $name" "$(or_heals $name 'symbolic link')"
done
for name in tmp roots containers cache mirror; do
    attacker mv "$pool/$name" "$pool/moved"
    attacker ln -s "$dir/outside" "$pool/$name"
    meets "a link for the directory $name" 'symbolic link\|no such file\|permission denied\|not a directory'
done
for name in lock config cache/fpi "$container"; do
    attacker rm -f "$pool/$name"
    attacker mkfifo "$pool/$name"
    meets "a FIFO for $name" "$(or_heals $name 'not a regular file')"
done
rm -f "$pool/lock" && attacker ln -s lock2 "$pool/lock"
meets "a dangling link" 'symbolic link'
# What a kernel without fs.protected_hardlinks, or the holder of the disk, can make.
for name in lock cache/fpi; do
    ln -f "$dir/outside/file" "$pool/$name"
    meets "a hard link for $name" "$(or_heals $name 'another name')"
done
for name in lock config "$container"; do
    rm -f "$pool/$name"
    mknod "$pool/$name" c 1 5 || skip "no devices can be made here"
    meets "a device for $name" 'not a regular file'
done
chown 4242 "$pool/$container"
meets "a third user's file" 'belongs to user 4242'
# And the control socket of a server.
attacker ln -s "$dir/outside/file" "$pool/control"
meets "a link for the control socket" 'not a socket'
sound
