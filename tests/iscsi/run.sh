#!/bin/sh
# Runs every behaviour script of this directory against an iSCSI server with real initiators.
#
# QUINTET_ISCSI_SERVER: command that serves a disk over iSCSI; it is called as
#   $QUINTET_ISCSI_SERVER [--read-only] [--pattern] --size SIZE ADDRESS
# prints "ready Some(ADDRESS)" and runs until it is killed. Default: the example iscsi_memory of the crate
# iscsi, built here.
# Each script exits 0 (passed), 77 (skipped: a client tool is missing) or anything else (failed).
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${QUINTET_ISCSI_SERVER:-}" ]; then
    (cd "$here/../.." && cargo build -q --release -p iscsi --example iscsi_memory) || exit 1
    QUINTET_ISCSI_SERVER="${CARGO_TARGET_DIR:-$here/../../target}/release/examples/iscsi_memory"
fi
export QUINTET_ISCSI_SERVER

passed=0 failed=0 skipped=0
for script in "$here"/${1:-}*.sh; do
    name=$(basename "$script" .sh)
    case $name in run | common | measure | score) continue ;; esac
    output=$(timeout 900 sh "$script" 2>&1)
    case $? in
    0) passed=$((passed + 1)); echo "ok      $name"; echo "$output" | grep '^score:' ;;
    77) skipped=$((skipped + 1)); echo "SKIPPED $name: $output" ;;
    *) failed=$((failed + 1)); echo "FAILED  $name"; echo "$output" | tail -30 | sed 's/^/        /' ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
