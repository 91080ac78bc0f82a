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
. "$here/../scripts.sh"
run_scripts "$here" "${1:-}" 300 loop serve nbd-server files fuse-server
