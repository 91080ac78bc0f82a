#!/usr/bin/env bash
# --skip-if-unchanged saves a snapshot if contents, names, metadata, paths or tags differ, or if something is missing, and
# none otherwise: of trees, streams and images, with and without a server.
. "$(dirname "$0")/common.sh"
# A snapshot has the directories above its paths too, and others change those of $dir: the sources lie in one whose
# parents only this script sees.
mount_tmpfs /srv 64M
mkdir /srv/src && ln -s /srv/src src && noise src/a 1 && noise image 2
new_pool
# saves COUNT COMMAND...: so many more snapshots.
saves() {
    local before expected=$1
    shift
    before=$(snapshots)
    exits "${code:-0}" q "$@" --skip-if-unchanged
    [ $(($(snapshots) - before)) -eq "$expected" ] || fail "$*: $(($(snapshots) - before)) snapshots, expected $expected: $(cat out)"
    [ "$expected" -eq 1 ] || says "no snapshot saved: nothing differs from "
}
for with_server in no yes; do
    [ $with_server = no ] || start_server --nbd-socket "$dir/nbd"
    tree=(backup /srv/src --tag "$with_server")
    saves 1 "${tree[@]}"
    saves 0 "${tree[@]}"
    saves 0 "${tree[@]}" --force
    saves 0 "${tree[@]}" --exclude nothing
    chmod 600 src/a
    saves 1 "${tree[@]}"
    saves 0 "${tree[@]}"
    touch "src/$with_server"
    saves 1 "${tree[@]}"
    saves 1 "${tree[@]}" --tag more
    saves 1 "${tree[@]}" --exclude a
    saves 1 "${tree[@]}" "$dir/image"
    chmod 644 src/a
    saves 1 "${tree[@]}"
    exits 0 q "${tree[@]}" --skip-if-unchanged --json
    says '"message_type":"summary","skipped":true,"unchanged_snapshot_id":"[0-9a-f]*"'
    ! grep -q '"snapshot_id"' out || fail "$(cat out)"
    # Without the flag as ever.
    before=$(snapshots)
    exits 0 q "${tree[@]}"
    [ "$(snapshots)" -eq $((before + 1)) ] || fail "no snapshot without the flag"

    image=(import "$dir/image" "image-$with_server")
    saves 1 "${image[@]}"
    says "image image-$with_server: read 2.00 MiB in"
    saves 0 "${image[@]}"
    says "2.00 MiB, unchanged and not read"
    saves 0 "${image[@]}" --force
    touch image
    saves 0 "${image[@]}"
    printf '%s' $with_server | dd of=image conv=notrunc status=none
    saves 1 "${image[@]}"

    for expected in 1 0 0; do
        before=$(snapshots)
        exits 0 q backup --skip-if-unchanged --stdin-filename "stream-$with_server" --stdin-from-command -- cat image
        [ $(($(snapshots) - before)) -eq $expected ] || fail "a stream: $(cat out)"
        says "stream stream-$with_server: read 2.00 MiB in"
    done
done
stop_server
# One that lacks something is saved.
if [ "$(id -u)" -ne 0 ]; then
    chmod 0 src/a
    code=3 saves 1 backup /srv/src
    code=3 saves 1 backup /srv/src
fi
exits 1 q backup src --skip-if-unchanged --dry-run
sound
