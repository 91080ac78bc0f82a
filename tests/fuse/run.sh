#!/usr/bin/env bash
# Runs every behaviour script of this directory against volumes that are shown as files.
#
# QUINTET_FUSE_SERVER: command that shows a volume of SIZE bytes as MOUNTPOINT/disk; it is called as
#   $QUINTET_FUSE_SERVER [--read-only] --size SIZE MOUNTPOINT
# says "ready", or "ready PATH" when the file is MOUNTPOINT/PATH, and runs until it is unmounted. Default: the example fuse_memory of the crate fuse.
# Each script exits 0 (passed), 77 (skipped: this machine cannot do it) or anything else (failed).
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${QUINTET_FUSE_SERVER:-}" ]; then
    (cd "$here/../.." && cargo build -q --release -p fuse --example fuse_memory) || exit 1
    QUINTET_FUSE_SERVER="${CARGO_TARGET_DIR:-$here/../../target}/release/examples/fuse_memory"
fi
export QUINTET_FUSE_SERVER
if [ ! -e /dev/fuse ]; then
    echo "SKIPPED all of it: /dev/fuse is missing"
    exit 0
fi
passed=0 failed=0 skipped=0
for script in "$here"/"${1:-}"*.sh; do
    name=$(basename "$script" .sh)
    case $name in run | common | measure) continue ;; esac
    output=$(timeout 120 bash "$script" 2>&1 </dev/null)
    status=$?
    case $status in
    0) passed=$((passed + 1)); echo "ok      $name" ;;
    77) skipped=$((skipped + 1)); echo "SKIPPED $name: $output" ;;
    *) failed=$((failed + 1)); echo "FAILED  $name ($status)"; echo "$output" | sed 's/^/        /' ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
