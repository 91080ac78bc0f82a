#!/usr/bin/env bash
# -v lists what a backup stores, a restore writes or removes, and a copy finds; -vv also what stays. JSON has the same
# names in messages, and without -v nobody lists files.
. "$(dirname "$0")/common.sh"
other_pool
src=$dir/src
mkdir -p "$src/out" "$src/marked"
for name in same differs large out/of marked/kept marked/gone; do echo "$name" >"$src/$name"; done
noise "$src/large" 1
printf 'Signature: 8a477f597d28d172789f06886806bc55' >"$src/marked/CACHEDIR.TAG"
new_pool
new_other_pool
lists() { LC_ALL=C grep -aE "^(new|changed|unchanged|excluded|create|replace|remove|leave|enter) +/" "$dir/out" | LC_ALL=C sort || true; }
is() { diff - <(lists) || fail "$1 lists something else"; }
exits 0 q backup "$src"
is "no -v" </dev/null
echo changed >>"$src/differs"
ln -s same "$src/link"
options="--exclude $src/out --exclude-caches"
# shellcheck disable=SC2086
for dry in "-n" ""; do
    exits 0 q backup -v $dry $options "$src"
    is "backup -v $dry" <<XX
changed $src/differs
new     $src/link
XX
    [ -n "$dry" ] || break
    exits 0 q backup -vv $dry $options "$src"
    is "backup -vv $dry" <<XX
changed $src/differs
excluded $src/marked/gone
excluded $src/marked/kept
excluded $src/out
new     $src/link
unchanged $src/large
unchanged $src/marked/CACHEDIR.TAG
unchanged $src/same
XX
done
# shellcheck disable=SC2086
exits 0 q backup -vv $options "$src"
is "backup -vv" <<XX
excluded $src/marked/gone
excluded $src/marked/kept
excluded $src/out
unchanged $src/differs
unchanged $src/large
unchanged $src/link
unchanged $src/marked/CACHEDIR.TAG
unchanged $src/same
XX
touch "$src/differs"
exits 0 q backup -vv --json "$src"
grep -q "{\"message_type\":\"change\",\"action\":\"unchanged\",\"path\":\"$src/large\"}" "$dir/out" || fail "$(cat "$dir/out")"
[ "$(grep -c '"action":"changed"' "$dir/out")" -eq 1 ] || fail "$(cat "$dir/out")"
exits 0 q backup --json "$src"
! grep -q '"change"' "$dir/out" || fail "a list without -v"
# Files are said to be stored when they are: not the unreadable ones.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    chmod 0755 "$dir"
    chmod -R a+rwX "$pool" "$src"
    echo secret >"$src/secret"
    chmod 0600 "$src/secret"
    cp "$QUINTET" "$dir/quintet" && chmod 0755 "$dir/quintet"
    mkdir "$dir/mine" && cp -r "$src" "$dir/mine/src" && chmod 0600 "$dir/mine/src/secret"
    chown -R 1234 "$pool"
    exits 3 setpriv --reuid 1234 --regid 1234 --clear-groups env HOME="$dir" QUINTET_CACHE_DIR="$dir/none" "$dir/quintet" \
        backup -v "$dir/mine/src"
    lists | grep -q "new     $dir/mine/src/same" || fail "$(cat "$dir/out")"
    ! lists | grep -q secret || fail "an unreadable file is said to be stored"
    rm "$src/secret"
    chown -R 0 "$pool"
fi

to=$dir/to
first=$(q snapshots --json | grep -o '"short_id":"[0-9a-f]*"' | sed -n 1p | cut -d'"' -f4)
exits 0 q restore "$first:$src" --target "$to" -v
lists | grep -q "^create  $to/same$" || fail "$(cat "$dir/out")"
echo other >"$to/differs"
echo more >"$to/more"
exits 0 q restore "$first:$src" --target "$to" --overwrite if-changed --delete -v
is "restore -v" <<XX
remove  $to/more
replace $to/differs
XX
exits 0 q restore "$first:$src" --target "$to" --overwrite if-changed --delete -vv
lists | grep -q "^leave   $to/differs$" || fail "$(cat "$dir/out")"
lists | grep -q "^enter   $to/out$" || fail "$(cat "$dir/out")"
exits 0 q restore "$first:$src" --target "$to" --overwrite if-changed
is "restore without -v" </dev/null

# Copies: what exists is counted, and listed only with -v.
exits 0 q copy --all
exits 0 q copy --all
! grep -q 'exists in the receiving pool' "$dir/out" "$dir/err" || fail "it lists what exists: $(cat "$dir/err")"
says 'existed there'
exits 0 q copy --all -v
says "snapshot $first: exists in the receiving pool"
sound
