#!/usr/bin/env bash
# Every line of the shell blocks of README works as written, in order, in one shell, and leaves nothing running. The
# directories that they name are empty ones of this script: it has a mount namespace of its own.
export TMPDIR=/var/tmp # the lines may use /tmp
. "$(dirname "$0")/common.sh"
requires_root
requires qemu-img python3
[ -e /dev/fuse ] || skip "/dev/fuse is missing"
readme=$(realpath "$here/../../README.md")

hide() {
    mkdir -p "$1"
    mount -t tmpfs tmpfs "$1" 2>/dev/null || skip "cannot mount a tmpfs here"
    mounted+=("$1")
}
mkdir -p "$dir/bin"
# A copy, because the program may lie below a directory that is hidden.
cp "$QUINTET" "$dir/bin/quintet"
QUINTET=$dir/bin/quintet
for directory in /srv /media /mnt /home /root /run; do hide "$directory"; done
mkdir -p /media/usb /home/alice/work
noise /home/alice/work/notes 3
echo text >/home/alice/work/letter
noise "$dir/raw" 20
truncate -s 64M "$dir/raw"
qemu-img convert -O qcow2 "$dir/raw" /srv/disk.qcow2

# A sample of /etc in its place: the real one may have files that change meanwhile.
mkdir "$dir/etc"
cp -a /etc/passwd /etc/group /etc/hosts "$dir/etc/" 2>/dev/null || true
echo setting >"$dir/etc/some.conf"
[ ! -e /etc/ld.so.cache ] || cp -a /etc/ld.so.cache "$dir/etc/"
mount --bind "$dir/etc" /etc && mounted+=(/etc)

sed -n '/^```sh$/,/^```$/p' "$readme" | grep -v '^```' >"$dir/lines"
[ "$(wc -l <"$dir/lines")" -ge 25 ] || fail "README has only $(wc -l <"$dir/lines") lines in its shell blocks"
{
    echo 'set -euo pipefail; echo $$ >'"$dir/session"
    while IFS= read -r line; do
        printf 'printf "%%s\\n" %q >&2\n%s\n' "$ $line" "$line"
    done <"$dir/lines"
    echo 'kill $(jobs -pr); wait; echo THE END'
} >"$dir/script"
unset QUINTET_REPOSITORY
cd /
status=0
# In a process group of its own, so that nothing that a failed line left behind goes on.
PATH=$dir/bin:$PATH HOME=/root timeout 300 setsid -w bash "$dir/script" >"$dir/shown" 2>&1 </dev/null &
script=$!
wait $script || status=$?
pkill -KILL -s "$(cat "$dir/session")" || true
[ $status -eq 0 ] && [ "$(tail -n 1 "$dir/shown")" = 'THE END' ] ||
    fail "README: exit code $status: $(tail -n 25 "$dir/shown")"
cp "$dir/shown" "${SHOWN:-/dev/null}"

# The results are there, not only exit codes of 0.
cmp "$dir/raw" /srv/disk.raw || fail "the exported image differs"
diff -r "$dir/etc" /srv/etc/etc 2>/dev/null || diff -r "$dir/etc" /srv/etc || fail "the restored tree differs"
matches 'virtual size: 64 MiB' <"$dir/shown" || fail "the clone was not served: $(cat "$dir/shown")"
matches 'some.conf' <"$dir/shown" || fail "the mount showed nothing: $(cat "$dir/shown")"
[ -s /media/usb/pool.recovery ] || fail "no recovery key"
[ -d /mnt/second/containers ] || fail "no second pool"
QUINTET_REPOSITORY=/mnt/second QUINTET_PASSWORD_FILE=/root/pool.password q snapshots --json >"$dir/copied"
[ "$(grep -c '"message_type":"snapshot"' "$dir/copied")" -ge 4 ] || fail "not copied: $(cat "$dir/copied")"
