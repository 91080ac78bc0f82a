#!/usr/bin/env bash
# Serves a new disk out of a new pool, with the command line that tests/nbd expects of a server:
#   nbd-server.sh [--read-only] [--pattern] --size SIZE SOCKET
# An image when it is read-only or has a pattern, and otherwise a volume.
set -euo pipefail
pattern= size= writable=1
while [ $# -gt 1 ]; do
    case $1 in
    --read-only) writable= ;;
    --pattern) pattern=1 writable= ;;
    --size) size=$2; shift ;;
    *) echo "unknown: $1" >&2; exit 2 ;;
    esac
    shift
done
# Beside the socket: the caller's scratch directory, which it removes.
dir=$1.pool
mkdir -p "$dir"
export QUINTET_REPOSITORY=$dir/pool
# A pool without encryption is refused to who gives a password.
unset QUINTET_PASSWORD QUINTET_PASSWORD_FILE QUINTET_PASSWORD_COMMAND
export QUINTET_CACHE_DIR=$dir/known
"$QUINTET" -q init --no-encryption
if [ -n "$writable" ]; then
    "$QUINTET" -q volume create disk --size "$size"
    # Small, so that checkpoints happen on the way.
    exec "$QUINTET" serve --nbd-socket "$1" --journal 32M
fi
if [ -n "$pattern" ]; then
    # Every eight bytes say where they are, as nbdkit's pattern plugin does.
    python3 - "$size" >"$dir/image" <<'P'
import struct, sys
size = int(sys.argv[1])
for at in range(0, size, 1 << 20):
    words = range(at, min(at + (1 << 20), size), 8)
    data = struct.pack(f">{len(words)}Q", *words)
    sys.stdout.buffer.write(data[: size - at])
P
else
    truncate -s "$size" "$dir/image"
fi
"$QUINTET" -q import "$dir/image" disk
exec "$QUINTET" serve --read-only --nbd-socket "$1" --export disk
