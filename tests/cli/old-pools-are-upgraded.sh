#!/usr/bin/env bash
# `upgrade` adds the features of new pools to one that an older version made: `--dry-run` says which and changes nothing;
# afterwards everything is there, and what is stored and collected can be read. A server of the pool runs the command.
. "$(dirname "$0")/common.sh"
requires python3
golden=$here/../../lab/testkit/tests/golden
export QUINTET_CACHE_DIR=$dir/known
config() {
    cat "$pool/config" "$pool/mirror/config" | sha256sum
}
# features: those that a reader must know, in both names of the config.
features() {
    python3 - "$pool/config" "$pool/mirror/config" <<'PY'
import sys
found = {int.from_bytes(open(path, "rb").read()[48 + 16:48 + 24], "little") for path in sys.argv[1:]}
assert len(found) == 1, found
print(found.pop())
PY
}
for name in v1-clear v1-x86; do
    rm -rf "$pool"
    cp -r "$golden/$name" "$pool"
    before=$(features)
    [ "$before" != 7 ] || fail "$name is not old"
    q snapshots --json | grep '"message_type":"snapshot"' >"$dir/snapshots"
    config=$(config)
    exits 0 q upgrade --dry-run
    says 'feature 2 would be added'
    says 'older versions of quintet would not open this pool'
    [ "$(config)" = "$config" ] || fail "a dry run changed the config"
    exits 0 q upgrade --dry-run --json
    [ "$(number features)" = $((7 - before)) ] || fail "$(cat "$dir/out")"
    case $name in
        v1-clear)
            exits 0 q upgrade
            says 'feature 2 added'
            ;;
        *)
            start_server
            exits 0 q upgrade
            says 'feature 2 added'
            # From the next session on.
            exits 0 q backup "$golden/$name"
            stop_server
            ;;
    esac
    [ "$(features)" = 7 ] || fail "features $(features)"
    exits 0 q upgrade
    says 'has all features'
    q snapshots --json | grep '"message_type":"snapshot"' | head -n "$(wc -l <"$dir/snapshots")" | diff - "$dir/snapshots" ||
        fail "other snapshots"
    noise "$dir/image" 3
    exits 0 q import -f raw "$dir/image" disk
    noise "$dir/other" 3
    exits 0 q import -f raw "$dir/other" other
    exits 0 q forget latest
    exits 0 q gc --trash-period 0
    exits 0 q gc --trash-period 0
    sound
    rm -f "$dir/exported"
    exits 0 q export -f raw disk "$dir/exported"
    cmp "$dir/image" "$dir/exported"
done
