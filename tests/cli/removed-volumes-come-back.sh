#!/usr/bin/env bash
# What deleting, rolling back and shrinking a volume take away can be undeleted, with and without a server; gc removes it
# after the trash period, and --purge at once.
. "$(dirname "$0")/common.sh"
requires qemu-io jq
uri() { echo "nbd+unix:///$1?socket=$dir/nbd"; }
fill() { qemu-io -f raw -c "write -P $2 0 1M" -c flush "$(uri "$1")" >"$dir/io" 2>&1 || fail "no write: $(cat "$dir/io")"; }
has() { qemu-io -f raw -r -c "read -P $2 ${3:-0 1M}" "$(uri "$1")" >"$dir/io" 2>&1 && ! grep -qi 'fail\|verif' "$dir/io" || fail "$1 has not $2: $(cat "$dir/io")"; }
trashed() { q undelete --json | jq -r "select(.message_type == \"forgotten\" and (.name | startswith(\"$1@$2-\"))) | .id"; }
new_pool
for with_server in no yes; do
    for name in web db; do exits 0 q volume create "$name" --size 2M; done
    start_server --nbd-socket "$dir/nbd"
    fill web 1 && fill db 1
    exits 0 q volume snapshot db@one
    fill db 2
    [ $with_server = yes ] || stop_server

    # Dry runs keep nothing.
    exits 0 q volume delete web --dry-run
    exits 0 q volume rollback db@one --dry-run
    [ -z "$(trashed web deleted)$(trashed db before-rollback)" ] || fail "a dry run put something into the trash"

    exits 0 q volume delete web
    says 'quintet undelete'
    exits 1 q volume delete web
    exits 0 q volume rollback db@one
    exits 0 q volume resize db 1M --shrink
    exits 0 q gc
    [ "$(trashed web deleted | wc -l)$(trashed db before-rollback | wc -l)$(trashed db before-shrink | wc -l)" = 111 ] ||
        fail "in the trash: $(q undelete)"

    exits 0 q undelete "$(trashed web deleted)"
    says 'volume web is back'
    exits 0 q undelete "$(trashed db before-rollback)"
    says 'volume rollback db@before-rollback'
    [ $with_server = yes ] || start_server --nbd-socket "$dir/nbd"
    has web 1
    has db 1
    exits 0 q volume rollback "$(q snapshots --json | grep -o 'db@before-rollback[^"]*' | head -n 1)"
    has db 2
    [ $with_server = yes ] || stop_server

    # Nothing is kept where that is not wanted, and gc ends what is kept.
    exits 0 q volume delete db --purge
    [ -z "$(trashed db deleted)" ] || fail "a purged volume is in the trash"
    exits 0 q volume delete web
    for id in $(q snapshots --json | jq -r 'select(.id) | .id'); do exits 0 q forget "$id"; done
    exits 0 q gc --trash-period 0
    [ "$(q undelete --json | jq -r 'select(.message_type == "summary") | .forgotten')" = 0 ] || fail "still in the trash: $(q undelete)"
    [ $with_server = no ] || stop_server
    sound
done
