#!/usr/bin/env bash
# The behaviours of tests/fuse, with volumes of a pool, or its images where nothing is written.
set -u
here=$(cd "$(dirname "$0")" && pwd)
# Disks of a pool have whole sectors.
export QUINTET QUINTET_FUSE_SERVER="$here/fuse-server.sh" QUINTET_FUSE_SECTORS=1
"$here/../fuse/run.sh"
