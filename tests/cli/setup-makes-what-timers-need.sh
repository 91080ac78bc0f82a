#!/usr/bin/env bash
# From nothing to timers: `setup` makes user, file, password, pool and units, the second time it changes nothing, and the
# units follow the file. What a unit runs works as the user quintet, commands of root too, and all of the pool stays that
# user's. A purge of the package takes what setup generated, and names what stays. In the clean root of the test of packages.
# Sealed: setup makes the password. The first run makes the root (a minute or two).
# seconds: 600
. "$(dirname "$0")/common.sh"
. "$here/../clean-root.sh"
pack 1.0+1 "$dir/one"
cp "$dir/one/"*.deb "$root/one.deb"
mkdir -p "$root/home/u" "$root/media/usb"
noise "$root/home/u/file" 1
chmod 700 "$root/home/u"
dpkg_inside -i /one.deb
# setup must make this one itself.
inside userdel quintet 2>/dev/null
rm -r "$root/etc/quintet" "$root/var/cache/quintet"
i() { inside "$@"; }
state() {
    (cd "$root" && find etc var/cache srv \( -name man -o -name ldconfig \) -prune -o -printf '%p %y %m %U %G %l\n' | sort
        find etc -type f -print0 | sort -z | xargs -0 sha256sum)
}
units=$root/etc/systemd/system
file=$root/etc/quintet/quintet.toml
# What stops it changes nothing: no terminal for the key, and a source that is not there.
state >"$dir/before"
exits 1 i setsid quintet setup
says "add --recovery-key-file"
exits 1 i quintet setup --recovery-key-file /media/usb/key --backup /nowhere
says "nothing was changed"
says "/nowhere does not exist"
# A dry run changes nothing, and says what the true run says.
exits 0 i quintet setup --recovery-key-file /media/usb/key --dry-run
sed '/^dry run/,$d' "$dir/out" >"$dir/steps"
state >"$dir/after"
diff "$dir/before" "$dir/after" || fail "it changed something"
exits 0 i setsid quintet setup --recovery-key-file /media/usb/key
head -n "$(wc -l <"$dir/steps")" "$dir/out" | diff "$dir/steps" - || fail "the dry run said something else"
says "make the user quintet"
says "systemd is not running"
says "systemctl start quintet-run-system.service"
! grep -q 'quintet-recovery-1' "$dir/out" "$dir/err" || fail "the key is in the output"
grep -q '^quintet-recovery-1 ' "$root/media/usb/key" || fail "no recovery key"
! grep -rq 'quintet-recovery-1' "$root/etc" "$root/srv" "$root/run" "$root/var/cache/quintet" || fail "a key stayed"
[ "$(i stat -c '%a %U %G' /etc/quintet /etc/quintet/quintet.toml /etc/quintet/password /srv/pool | tr '\n' ' ')" = \
    "750 root quintet 640 root quintet 600 quintet quintet 700 quintet quintet " ] || fail "$(i ls -lR /etc/quintet /srv)"
for timer in system forget check; do
    [ -L "$units/timers.target.wants/quintet-run-$timer.timer" ] || fail "the timer $timer is not enabled"
done
# A colon in a name means something to this tool.
verify() {
    i sh -c 'rm -rf /tmp/units && mkdir /tmp/units && cd /etc/systemd/system && for unit in quintet-run-*; do
        cp "$unit" "/tmp/units/$(echo "$unit" | tr : -)"; done && cd /tmp/units && systemd-analyze verify *' >"$dir/out" 2>&1 ||
        fail "$(cat "$dir/out")"
    ! grep -i 'quintet-run.*\(unknown\|failed\|invalid\|not executable\|ignor\)' "$dir/out" || fail "a unit is not valid"
}
verify
# The second run changes nothing.
state >"$dir/before"
exits 0 i quintet setup --recovery-key-file /media/usb/other
says "everything is there"
state >"$dir/after"
diff "$dir/before" "$dir/after" || fail "the second setup changed something"
exits 1 i quintet setup --pool /srv/other
says "says that the pool is /srv/pool"
# as_unit JOB: runs the command of a service with its user, variables and capabilities.
as_unit() {
    local unit=$units/quintet-run-$1.service caps
    caps=$(sed -n 's/^AmbientCapabilities=//p' "$unit" | tr 'A-Z ' 'a-z,' | sed 's/cap_/+/g')
    i env $(sed -n 's/^Environment=//p' "$unit") setpriv --reuid quintet --regid quintet --clear-groups --no-new-privs \
        --bounding-set "-all${caps:+,$caps}" --inh-caps "-all${caps:+,$caps}" --ambient-caps "-all${caps:+,$caps}" \
        $(sed -n 's/^ExecStart=//p' "$unit")
}
owners() {
    local others
    others=$(find "$root/srv/pool" "$root/var/cache/quintet" ! -uid "$(i id -u quintet)")
    [ -z "$others" ] || fail "after $1 these are another user's: $others"
}
for job in system forget check watch; do
    exits 0 as_unit "$job"
    owners "$job"
done
# Jobs of one pool take turns.
exec 7>"$root/var/cache/quintet/run.lock"
flock 7
as_unit forget >"$dir/waiter" 2>&1 7>&- &
waiter=$!
waits() { grep -q -- "-> FLOCK .*:$(stat -c %i "$root/var/cache/quintet/run.lock") " /proc/locks; }
wait_until waits
kill -0 $waiter || fail "it did not wait: $(cat "$dir/waiter")"
exec 7>&-
wait $waiter || fail "after its turn: $(cat "$dir/waiter")"
# Commands need no more words. Those of root that write go on as the owner, and read what it may not.
for command in "snapshots" "status" "backup /home" "run system" "tag --add x latest" "check" "gc"; do
    exits 0 i quintet $command
    owners "root's $command"
    exits 0 i runuser -u quintet -- quintet snapshots
done
says "/home"
exits 0 i quintet restore latest:/home --target /tmp/restored
cmp "$root/home/u/file" "$(find "$root/tmp/restored" -name file)" || fail "restored something else"
exits 1 i quintet serve
says "belongs to the user quintet"
# The units follow the file: what is gone there goes, except for units of the admin.
printf '[Service]\nExecStart=/bin/true\n' >"$units/quintet-run-mine.service"
sed -i '/^\[check\]/,/^when/d' "$file"
cat >>"$file" <<'XX'
[sources.db]
command = ["echo", "hello"]
when = "every 15m"
[copies.away]
to = "/mnt/away 100%"
when = "sun 04:00"
[notify]
command = ["true"]
XX
exits 0 i quintet setup
says "write /etc/systemd/system/quintet-run-copy:away.timer"
says "remove /etc/systemd/system/quintet-run-check.timer"
[ ! -e "$units/quintet-run-check.service" ] && [ ! -L "$units/timers.target.wants/quintet-run-check.timer" ] ||
    fail "the check is still there"
[ -e "$units/quintet-run-mine.service" ] || fail "a unit of the admin is gone"
verify
exits 0 as_unit db
# A file with a mistake stops it before anything.
state >"$dir/before"
cp "$file" "$dir/good"
echo 'nonsense = 1' >>"$file"
exits 1 i quintet setup
says "notify.nonsense"
cp "$dir/good" "$file"
state >"$dir/after"
diff "$dir/before" "$dir/after" || fail "it changed something"
# Timers away; the rest stays and is named.
exits 0 i quintet setup --remove
[ "$(cd "$units" && echo quintet-run-*)" = quintet-run-mine.service ] || fail "units are left"
! ls "$units/timers.target.wants" | matches quintet-run || fail "enabled timers are left"
for what in /etc/quintet/quintet.toml /etc/quintet/password /srv/pool; do says "$what stays"; done
# A purge removes what setup generated: units with its mark, and a file of its that nobody changed.
rm "$units/quintet-run-mine.service"
exits 0 i quintet setup
dpkg_inside --purge quintet
! ls "$units"/quintet-run-* 2>/dev/null || fail "a purge leaves units"
says "/etc/quintet/quintet.toml stays"
rm "$file"
dpkg_inside -i /one.deb
exits 0 i quintet setup
dpkg_inside --purge quintet
[ ! -e "$file" ] || fail "a purge leaves what nobody changed"
says "/etc/quintet/password stays"
says "pool in /srv/pool stays"
