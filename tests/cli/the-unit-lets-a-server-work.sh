#!/usr/bin/env bash
# The shipped systemd units are valid and tight, and leave a server every system call that it makes
# while it serves, mounts, backs up, collects and scrubs.
# Sealed: deriving and protecting keys makes system calls too.
. "$(dirname "$0")/common.sh"
sealed
requires systemd-analyze strace
units=$(cd "$here/../../systemd" && pwd)
mkdir -p "$dir/units/quintet.service.d"
# exposed LIMIT: the unit is valid and no more exposed than that, of 100.
exposed() {
    systemd-analyze verify --man=no "$dir/units/quintet.service" >"$dir/out" 2>&1 || fail "$(cat "$dir/out")"
    ! grep -i 'unknown\|failed to parse\|invalid' "$dir/out" || fail "the unit is not valid"
    systemd-analyze security --offline=true --threshold="$1" --no-pager "$dir/units/quintet.service" >"$dir/out" 2>&1 ||
        fail "too exposed: $(tail -n 1 "$dir/out")"
}
systemd-analyze security --help 2>&1 | matches offline || skip "this systemd cannot look at units offline"
sed "s,/usr/local/bin/quintet,$(command -v "$QUINTET" || echo "$QUINTET")," "$units/quintet.service" >"$dir/units/quintet.service"
exposed 55
# allows NAME...: every call of these groups, one a line.
allows() {
    local name
    for name; do
        case $name in
        @*) allows $(systemd-analyze syscall-filter "$name" | sed '1d;/#/d') ;;
        *) echo "$name" ;;
        esac
    done
}
# Calls that the filter of $1 refuses. Not counted is cachestat (451, which older tools know by its number
# only): systemd lets it through since version 257, and where it fails reads ask in another way.
refused() {
    allows $(sed -n 's/^SystemCallFilter=//p' "$1") | sort -u >"$dir/allowed"
    grep -oE '^([0-9]+ +)?[a-z_0-9]+\(' "$dir/calls" | grep -oE '[a-z_0-9]+\(' | tr -d '(' | sort -u >"$dir/made"
    [ "$(wc -l <"$dir/made")" -gt 40 ] || fail "few calls: $(tr '\n' ' ' <"$dir/made")"
    grep -q "^openat2$" "$dir/made" || fail "what was traced is not what a server does"
    comm -23 "$dir/made" "$dir/allowed" | grep -vxE 'cachestat|syscall_0x1c3' || true
}
mkdir "$dir/src" "$dir/mnt" "$dir/fast"
real_tree "$dir/src/tree" 5 2>/dev/null || noise "$dir/src/file" 5
new_pool
works() {
    local tracer
    rm -f "$dir/serve"
    strace -f -qq --seccomp-bpf -o "$dir/calls" "$QUINTET" serve --nbd-socket "$dir/nbd" --metrics 127.0.0.1:0 \
        --fast "$dir/fast" --fast-size 64M "$@" >"$dir/serve" 2>&1 &
    tracer=$!
    server=$tracer
    wait_until grep -qE '^serving' "$dir/serve"
    exits 0 q volume create disk --size 8M
    exits 0 q gc
    exits 0 q scrub --quiet
    exits 0 q status
    if command -v qemu-io >/dev/null; then
        qemu-io -f raw -c 'write 0 1M' -c flush -c 'discard 0 1M' "nbd+unix:///disk?socket=$dir/nbd" >/dev/null || fail "no NBD: $(cat "$dir/serve")"
    fi
    if [ $# -gt 0 ]; then
        exits 0 q backup "$dir/src"
        exits 0 q backup --stdin-from-command --stdin-filename said -- sh -c 'echo hello'
        mounted+=("$dir/mnt")
        [ -n "$(ls "$dir/mnt/snapshots/latest")" ] || fail "nothing is mounted"
        printf x | dd of="$dir/mnt/volumes/disk" conv=notrunc,fsync status=none || fail "no volume"
    fi
    exits 0 q volume delete disk
    kill -TERM "$(pgrep -P "$tracer" | head -n 1)"
    wait "$tracer" || fail "the server: $(cat "$dir/serve")"
    server=
}
works
cp "$units/sealed.conf" "$dir/units/quintet.service.d/"
exposed 30
# A later empty line begins anew.
[ -z "$(refused "$units/sealed.conf")" ] || fail "sealed.conf refuses: $(refused "$units/sealed.conf" | tr '\n' ' ')"
[ -e /dev/fuse ] && [ "$(id -u)" -eq 0 ] || skip "nothing can be mounted here: only part of it was tested"
works --mount "$dir/mnt"
[ -z "$(refused "$units/quintet.service")" ] || fail "quintet.service refuses: $(refused "$units/quintet.service" | tr '\n' ' ')"
sound
