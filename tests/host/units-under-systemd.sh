#!/usr/bin/env bash
# The shipped units, as they are shipped, under a systemd that is process 1: of a container with a root of its own, where
# nothing of this machine can be written but the program's scratch. Says SKIPPED where that cannot be.
#   QUINTET=.../quintet MIGRATIONS_PROGRAM=.../migrations tests/host/units-under-systemd.sh
. "$(dirname "$0")/filesystems.sh"
units=$(cd "$here/../../systemd" && pwd) || exit 1
need_packages systemd-analyze:systemd
systemd=/usr/lib/systemd/systemd
[ -x $systemd ] || { skip "no systemd here"; exit 77; }
[ "$(id -u)" -eq 0 ] || { skip "containers are made by root"; exit 77; }
in_memory
root=$dir/root
init='' container='' cgroup=''

# The container's processes end with its first.
clean_up() {
    [ -z "$init" ] || kill -9 "$init" 2>/dev/null
    [ -z "$container" ] || wait "$container" 2>/dev/null
    [ ! -d "${cgroup:-/none}" ] || find "$cgroup" -depth -type d -exec rmdir {} +
}

# The root: programs are this machine's and cannot be written; all else is new and in memory.
mkdir -p "$root"
mount -t tmpfs -o mode=755 root "$root"
mkdir -p "$root"/{usr,etc/systemd/system,etc/quintet,proc,sys,dev,run,tmp,var,srv,home,root,old}
mount --rbind /usr "$root/usr" && mount -o remount,bind,ro "$root/usr"
for link in bin sbin lib lib32 lib64 libx32; do
    if [ -L /$link ]; then cp -a /$link "$root/$link"; elif [ -d /$link ]; then
        mkdir "$root/$link" && mount --bind /$link "$root/$link" && mount -o remount,bind,ro "$root/$link"
    fi
done
mount -t tmpfs -o mode=755 local "$root/usr/local"
mkdir "$root/usr/local/bin"
cp "$quintet" "$root/usr/local/bin/quintet"
mkdir -p "$root/etc/alternatives" && cp -a /etc/ld.so.c* "$root/etc/" 2>/dev/null
printf 'root:x:0:0::/root:/bin/sh\nquintet:x:990:990::/srv/pool:/bin/sh\nother:x:1000:1000::/home:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' >"$root/etc/passwd"
printf 'root:x:0:\nquintet:x:990:\nother:x:1000:\nnogroup:x:65534:\n' >"$root/etc/group"
printf 'passwd: files systemd\ngroup: files systemd\n' >"$root/etc/nsswitch.conf"
echo ID=test >"$root/etc/os-release"
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
echo a good password >"$root/etc/quintet/password"
chmod 600 "$root/etc/quintet/password"
cp "$units"/*.service "$units"/*.timer "$root/etc/systemd/system/"
printf '[Unit]\nDescription=Only what a unit needs\nRequires=basic.target\nAfter=basic.target\n' >"$root/etc/systemd/system/test.target"
# The container is no machine: it has no devices, disks or network to set up.
for unit in systemd-udevd.service systemd-udev-trigger.service systemd-remount-fs.service systemd-sysctl.service \
    systemd-modules-load.service systemd-random-seed.service systemd-networkd.service systemd-timesyncd.service \
    systemd-resolved.service systemd-logind.service systemd-sysusers.service systemd-udevd-control.socket \
    systemd-udevd-kernel.socket; do
    ln -s /dev/null "$root/etc/systemd/system/$unit"
done
mount -t tmpfs -o mode=755 dev "$root/dev"
mkdir "$root/dev/shm" "$root/dev/pts"
for device in null zero full random urandom tty fuse; do
    [ -e /dev/$device ] && touch "$root/dev/$device" && mount --bind /dev/$device "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"

cat >"$dir/start" <<'START'
set -eu
root=$1
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys" 2>/dev/null || mount --rbind /sys "$root/sys"
if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then
    mount -t cgroup2 cgroup "$root/sys/fs/cgroup"
else
    mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
    mkdir "$root/sys/fs/cgroup/systemd"
    mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
fi
mount -t tmpfs -o mode=755,nosuid,nodev run "$root/run"
cd "$root"
pivot_root . old
umount -l /old
# A unit with credentials gets them by a mount that has to reach this namespace.
mount --make-rshared /
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /usr/lib/systemd/systemd --system --unit=test.target --log-target=console --show-status=no
START

# A cgroup of its own, that goes away with it.
cgroup=/sys/fs/cgroup/systemd/quintet-units-$$
mkdir "$cgroup" 2>/dev/null || cgroup=''
fresh ext4 600M || exit 77
mkdir "$mnt/home" "$mnt/srv"
mount --bind "$mnt/home" "$root/home" && mount --bind "$mnt/srv" "$root/srv"
(
    [ -z "$cgroup" ] || echo "$BASHPID" >"$cgroup/cgroup.procs"
    exec unshare --pid --fork --kill-child --mount --uts --ipc --cgroup --net bash "$dir/start" "$root"
) >"$dir/log" 2>&1 &
container=$!

# inside COMMAND...: in the container, as its root.
inside() {
    timeout 300 nsenter -t "$init" -m -p -u -i -C -n env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
is_up() {
    init=$(pgrep -P "$container") && [ "$(inside systemctl is-active test.target)" = active ]
}
has_ended() {
    ! kill -0 "$container"
}
said() {
    # The journal may have the last lines later.
    inside journalctl --sync 2>/dev/null
    inside journalctl -o cat --no-pager -u "$1" --since "@$since" 2>&1
}
# runs UNIT: the unit, once, to its end.
runs() {
    since=$EPOCHSECONDS
    inside systemctl start "$1.service" >"$dir/out" 2>&1 || wrong "$1: $(cat "$dir/out"; said "$1")"
    [ "$(inside systemctl show -P Result "$1.service")" = success ] || wrong "$1: $(said "$1")"
}
if ! wait_until is_up; then
    # No systemd starts in a container of this machine: not a fault of the units.
    failed=0
    skip "systemd does not start in a container here: $(tail -n 3 "$dir/log")"
    exit 77
fi

# The pool and its user; files of another user, which only the units' capabilities reach.
mkdir -m 700 "$root/srv/pool" "$root/home/theirs" "$root/srv/theirs"
chown 990:990 "$root/srv/pool"
echo secret >"$root/home/theirs/file"
"$MIGRATIONS_PROGRAM" fragment "$mnt/file" 2 && mv "$mnt/file" "$mnt/srv/theirs/file" || wrong "no fragmented file"
chmod 600 "$root/home/theirs/file" "$root/srv/theirs/file"
chown -R 1000:1000 "$root/home/theirs" "$root/srv/theirs"
sync -f "$mnt"
before=$(cksum <"$mnt/srv/theirs/file")
as_quintet() {
    inside setpriv --reuid 990 --regid 990 --clear-groups env HOME=/tmp QUINTET_PASSWORD_FILE=/tmp/password QUINTET_REPOSITORY=/srv/pool XDG_CACHE_HOME=/tmp/cache "$@"
}
as_quintet sh -c 'umask 77; echo a good password >/tmp/password && quintet init --password-file /tmp/password' >"$dir/out" 2>&1 ||
    wrong "no pool: $(cat "$dir/out")"

for unit in quintet quintet-backup quintet-defrag quintet-host-scrub; do
    inside systemd-analyze verify --man=no "/etc/systemd/system/$unit.service" >"$dir/out" 2>&1 || wrong "$unit: $(cat "$dir/out")"
done
# Without a server, and beside one.
runs quintet-backup
runs quintet-host-scrub
since=$EPOCHSECONDS
inside systemctl start quintet.service >"$dir/out" 2>&1 || wrong "quintet: $(cat "$dir/out"; said quintet)"
[ "$(inside systemctl is-active quintet.service)" = active ] || wrong "quintet: $(said quintet)"
echo more >>"$root/home/theirs/file"
runs quintet-backup
# A systemd before 257 hides cachestat from the unit: that is a possible cause that the message has to name.
said quintet-backup >"$dir/said"
if grep -q cachestat "$dir/said" && ! grep -q 'a filter of system calls (systemd before 257) hides it' "$dir/said"; then
    wrong "the message blames the kernel alone: $(cat "$dir/said")"
fi
runs quintet-host-scrub
as_quintet quintet snapshots --json >"$dir/json" 2>"$dir/errors" || wrong "a command beside the server: $(cat "$dir/errors")"
[ "$(grep -o '"id"' "$dir/json" | wc -l)" -eq 2 ] || wrong "snapshots: $(cat "$dir/json")"
# It warns of owners that only root can set.
as_quintet quintet restore latest --target /tmp/restored >"$dir/out" 2>&1
[ "$(tail -n 1 "$root/tmp/restored/home/theirs/file" 2>&1)" = more ] || wrong "not in the backup: $(cat "$dir/out")"
# A server that dies comes back.
old=$(inside systemctl show -P MainPID quintet.service)
inside kill -9 "$old"
is_back() {
    [ "$(inside systemctl is-active quintet.service)" = active ] && [ "$(inside systemctl show -P MainPID quintet.service)" != "$old" ]
}
wait_until is_back
since=$EPOCHSECONDS
inside systemctl stop quintet.service
[ "$(inside systemctl show -P Result quintet.service)" = success ] || wrong "the server's end: $(said quintet)"

runs quintet-defrag
said quintet-defrag | grep -q "moved [1-9][0-9.]* MiB" || wrong "not moved: $(said quintet-defrag)"
[ "$before" = "$(cksum <"$mnt/srv/theirs/file")" ] || wrong "other bytes"
for timer in quintet-backup quintet-defrag quintet-host-scrub; do
    inside systemctl start "$timer.timer" >"$dir/out" 2>&1 || wrong "$timer.timer: $(cat "$dir/out")"
    [ "$(inside systemctl is-active "$timer.timer")" = active ] || wrong "$timer.timer"
done
inside kill -s RTMIN+14 1 2>/dev/null
wait_until has_ended
exit $failed
