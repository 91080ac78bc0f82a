#!/usr/bin/env bash
# The behaviours of tests/nbd, with volumes of a pool, or its images where nothing is written.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export QUINTET QUINTET_NBD_SERVER="$here/nbd-server.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The scripts leave files where they run.
cd "$scratch" || exit 1
"$here/../nbd/run.sh"
