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
. "$here/../scripts.sh"
run_scripts "$here" "${1:-}" 120 measure
