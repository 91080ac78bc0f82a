#!/usr/bin/env bash
# Shows a new disk out of a new pool, with the command line that tests/fuse expects of a server:
#   fuse-server.sh [--read-only] --size SIZE MOUNTPOINT
# An image when it is read-only, and otherwise a volume.
set -euo pipefail
size= writable=1
while [ $# -gt 1 ]; do
    case $1 in
    --read-only) writable= ;;
    --size) size=$2; shift ;;
    *) echo "unknown: $1" >&2; exit 2 ;;
    esac
    shift
done
# Beside the mount: the caller's scratch directory, which it removes.
dir=$1.pool
mkdir -p "$dir"
export QUINTET_REPOSITORY=$dir/pool QUINTET_MEMORY=128M
# A pool without encryption is refused to who gives a password.
unset QUINTET_PASSWORD QUINTET_PASSWORD_FILE QUINTET_PASSWORD_COMMAND
export QUINTET_CACHE_DIR=$dir/known
"$QUINTET" -q init --no-encryption
if [ -n "$writable" ]; then
    "$QUINTET" -q volume create disk --size "$size"
    file=volumes/disk
else
    truncate -s "$size" "$dir/image"
    "$QUINTET" -q import "$dir/image" disk
    file=images/disk
fi
options=()
[ -n "$writable" ] || options=(--read-only)
"$QUINTET" mount ${options[@]+"${options[@]}"} "$1" >"$dir/log" &
program=$!
trap 'kill $program' TERM INT
until grep -q snapshot "$dir/log"; do
    kill -0 $program 2>/dev/null || { wait $program; exit 1; }
    sleep 0.05
done
echo "ready $file"
wait $program
