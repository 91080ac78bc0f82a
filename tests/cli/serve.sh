#!/usr/bin/env bash
# The behaviours of tests/nbd that need no writing, with images served out of a pool.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export QUINTET QUINTET_NBD_SERVER="$here/nbd-server.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failed=0
for name in list-names-the-exports pattern-over-many-connections qemu-img-info qemu-img-map \
    read-only-refuses-writes tls-is-refused-politely unknown-export-is-refused; do
    "$here/../nbd/run.sh" "$name" >log 2>&1 || failed=$((failed + 1))
    grep -v ' passed, ' log
done
[ $failed -eq 0 ]
