#!/usr/bin/env bash
# A clone or a snapshot of a volume of 1 TiB stores 64 KiB at most. Where a server holds the pool, it costs the server some
# reads and writes of 64 KiB together; without one the command opens the pool and the journal first. In both cases it costs
# what it costs for a volume of 16 MiB. (How long that takes: docs/evaluation/serving.md.)
. "$(dirname "$0")/common.sh"
requires qemu-io
new_pool
exits 0 q volume create big --size 1T
exits 0 q volume create small --size 16M
start_server --nbd-socket "$dir/nbd"
for volume in big small; do
    qemu-io -f raw "nbd+unix:///$volume?socket=$dir/nbd" -c 'write -P 1 0 16M' -c flush >"$dir/io" || fail "$(cat "$dir/io")"
done
qemu-io -f raw "nbd+unix:///big?socket=$dir/nbd" -c 'write -P 2 512G 16M' -c flush >"$dir/io" || fail "$(cat "$dir/io")"
for volume in big small; do exits 0 q volume snapshot $volume@first; done
# Everything that is allocated for the pool but its journal and caches.
used() {
    find "$pool" -type f -not -path "$pool/cache/*" -not -path "$pool/journal/*" -printf '%b\n' |
        awk '{ sum += $1 } END { print sum * 512 }'
}
# Of a process and the children that it has waited for: bytes that it read and wrote, and calls for that.
io() {
    awk '/^[rw]char/ { bytes += $2 } /^sysc/ { calls += $2 } END { print bytes, calls }' "/proc/$1/io"
}
# alone COMMAND...: the same of a command without a server.
alone() {
    bash -c '"$@" >/dev/null || exit; awk "/^[rw]char/ { bytes += \$2 } /^sysc/ { calls += \$2 } END { print bytes, calls }" /proc/$$/io' - \
        "$QUINTET" "$@"
}
number=0
# cheap COMMAND...: five of them; each makes another name. The server's own work may fall into some of them: the least counts.
cheap() {
    local before after bytes calls bytes_after calls_after least=-1 least_calls=0
    before=$(used)
    for _ in 1 2 3 4 5; do
        number=$((number + 1))
        read -r bytes calls < <(io "$server")
        exits 0 q "$@$number"
        read -r bytes_after calls_after < <(io "$server")
        bytes=$((bytes_after - bytes)) calls=$((calls_after - calls))
        if [ $least -lt 0 ] || [ $bytes -lt $least ]; then least=$bytes least_calls=$calls; fi
    done
    after=$(used)
    echo "$*: stores $(((after - before) / 5)) bytes, reads and writes $least bytes in $least_calls calls"
    [ $(((after - before) / 5)) -lt 65536 ] || fail "it stores too much"
    [ $least -lt 65536 ] && [ $least_calls -lt 32 ] || fail "it reads and writes too much"
}
for volume in big small; do
    cheap volume clone $volume copy
    cheap volume clone $volume@first copy
    cheap volume snapshot $volume@s
done
stop_server
# alike COMMAND ARGUMENT...: what it costs of big and of small; %s stands for the volume.
alike() {
    local before after of_big of_small
    before=$(used)
    read -r of_big _ < <(alone ${*//%s/big})
    read -r of_small _ < <(alone ${*//%s/small})
    after=$(used)
    echo "$*: $of_big and $of_small bytes are read and written"
    [ $((after - before)) -lt 131072 ] || fail "$*: two store $((after - before)) bytes"
    [ "$of_big" -lt $((of_small + 131072)) ] || fail "$*: $of_big bytes instead of $of_small"
}
alike volume clone %s alone%s
alike volume clone %s@first second%s
alike volume snapshot %s@alone
sound
