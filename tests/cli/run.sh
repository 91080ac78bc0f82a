#!/usr/bin/env bash
# Runs every behaviour script of this directory against the program, as a user would.
#
# QUINTET: the program. Default: the release build, made here.
# Each script exits 0 (passed), 77 (skipped: this machine cannot do it) or anything else (failed).
# With an argument: only scripts whose names begin with it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${QUINTET:-}" ]; then
    (cd "$here/../.." && cargo build -q --release --package quintet) || exit 1
    QUINTET=${CARGO_TARGET_DIR:-$here/../../target}/release/quintet
fi
export QUINTET
passed=0 failed=0 skipped=0
for script in "$here"/"${1:-}"*.sh; do
    name=$(basename "$script" .sh)
    case $name in run | common | loop | serve | nbd-server | files | fuse-server) continue ;; esac
    started=$SECONDS
    output=$(timeout 300 bash "$script" 2>&1 </dev/null)
    status=$?
    took=$((SECONDS - started))
    case $status in
    0) passed=$((passed + 1)); echo "ok      $name ($took s)" ;;
    77) skipped=$((skipped + 1)); echo "SKIPPED $name: $output" ;;
    *) failed=$((failed + 1)); echo "FAILED  $name ($status, $took s)"; echo "$output" | sed 's/^/        /' ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
