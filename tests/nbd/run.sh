#!/bin/sh
# Runs every behaviour script of this directory against an NBD server with real clients.
#
# QUINTET_NBD_SERVER: command that serves a disk of SIZE bytes on a unix socket; it is called as
#   $QUINTET_NBD_SERVER [--read-only] [--pattern] --size SIZE SOCKET
# and runs until it is killed. Default: the example nbd_memory of the crate nbd, built here.
# Each script exits 0 (passed), 77 (skipped: a client tool is missing) or anything else (failed).
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${QUINTET_NBD_SERVER:-}" ]; then
    (cd "$here/../.." && cargo build -q --release -p nbd --example nbd_memory) || exit 1
    QUINTET_NBD_SERVER="${CARGO_TARGET_DIR:-$here/../../target}/release/examples/nbd_memory"
fi
export QUINTET_NBD_SERVER
passed=0 failed=0 skipped=0
for script in "$here"/${1:-}*.sh; do
    name=$(basename "$script" .sh)
    case $name in run | common | measure) continue ;; esac
    output=$(timeout 120 sh "$script" 2>&1)
    case $? in
    0) passed=$((passed + 1)); echo "ok      $name" ;;
    77) skipped=$((skipped + 1)); echo "SKIPPED $name: $output" ;;
    *) failed=$((failed + 1)); echo "FAILED  $name"; echo "$output" | sed 's/^/        /' ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
