#!/usr/bin/env bash
# The server is killed while clients write over NBD, iSCSI at two portals and a mount, initiators lock and fence, disks are
# hostile, the fast tier's file is damaged and commands run, again and again; nothing that was flushed is lost, torn or
# misplaced, and the memory stays within the plan. Eight rounds, of which there are more until each command and kind of
# client has been there and the server was killed while it served, started and stopped; 24 in the long form. Longer:
# tests/soak/killed-servers.py --minutes 60.
# Sealed: killed servers must leave a journal and checkpoints that open again, with copies to other keys.
# seconds: 600
. "$(dirname "$0")/common.sh"
sealed
soak=$here/../soak
mount=()
[ -e /dev/fuse ] || { echo "SKIPPED clients of files: /dev/fuse is missing"; mount=(--no-mount); }
for python in python3 /usr/bin/python3; do
    ! "$python" -c 'import nbd' 2>/dev/null || break
done
export PYTHONDONTWRITEBYTECODE=1 TMPDIR=$dir
"$python" -m unittest discover -s "$soak" 2>&1
rounds=8
! long_run || rounds=24
"$python" "$soak/killed-servers.py" --rounds $rounds --seed "${QUINTET_SEED:-7}" ${mount[@]+"${mount[@]}"}
