#!/usr/bin/env bash
# A client in a mount namespace of its own is served if it sees the same files, as a service with ProtectSystem= does. It is
# refused, and the place is named, if it does not; and if it asks for a mount, which it would not see.
. "$(dirname "$0")/common.sh"
requires_root
unshare --mount true 2>/dev/null || skip "no mount namespaces here"
new_pool
mkdir "$dir/tree" "$dir/point" && echo x >"$dir/tree/file"
start_server
# there COMMAND...: in a namespace where the shell code $preparation was executed.
there() {
    unshare --mount --propagation private sh -c "$preparation"'; exec "$@"' sh "$QUINTET" "$@"
}
preparation=:
exits 0 there backup "$dir/tree"
# What ProtectSystem=strict does to a path that may be written.
preparation="mount --bind '$dir/tree' '$dir/tree'"
exits 0 there backup "$dir/tree"
exits 1 there mount "$dir/point"
says 'you would not see what it mounts'
preparation="mount -t tmpfs other '$dir/tree' && echo other >'$dir/tree/file'"
exits 1 there backup "$dir/tree"
says "sees other files in $dir/tree "
preparation="mount -t tmpfs other '$dir/point'"
exits 1 there backup "$dir/tree"
# A command that reads no files of the user does not mind.
exits 0 there forget --keep-last 1
[ "$(snapshots)" -eq 1 ] || fail "snapshots: $(q snapshots)"
stop_server
