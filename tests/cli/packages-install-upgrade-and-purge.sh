#!/usr/bin/env bash
# The Debian package in a clean root with a real dpkg: it installs, its parts work, an upgrade keeps what the admin made,
# a purge leaves pools and secrets and names them, and nothing else. Two runs make the same bytes. The first run makes the
# root (a minute or two), later ones take it from the build's directory.
# seconds: 600
. "$(dirname "$0")/common.sh"
. "$here/../clean-root.sh"

pack 1.0+1 "$dir/one"
(umask 077 && pack 1.0+1 "$dir/again")
pack 1.0+2 "$dir/two"
for file in "$dir"/one/*; do
    cmp "$file" "$dir/again/$(basename "$file")" || fail "two runs differ: $file"
done
cp "$dir/one/"*.deb "$root/one.deb"
cp "$dir/two/"*.deb "$root/two.deb"

# Everything but logs, and what dpkg, man and the tools for users keep for themselves.
listed() {
    (cd "$root" && find . \( -path ./proc -o -path ./dev -o -path ./var/log -o -path ./var/lib/dpkg -o -path ./var/cache/man \
        -o -path ./tmp -o -path ./run \) -prune -o ! -path './etc/*-' ! -path './etc/.pwd.lock' -printf '%p %m %U %G\n' | sort)
    cat "$root/etc/passwd" "$root/etc/group"
}
listed >"$dir/before"

# What it installs works.
dpkg_inside -i /one.deb
inside quintet --version | matches "^quintet [0-9.]* (" || fail "no version: $(inside quintet --version)"
inside man quintet-backup | matches 'quintet backup' || fail "no man page"
units=$(cd "$root/usr/lib/systemd/system" && echo quintet*)
[ "$(wc -w <<<"$units")" -eq 7 ] || fail "units: $units"
! grep -l /usr/local "$root"/usr/lib/systemd/system/quintet* || fail "units call another program"
inside sh -c 'cd /usr/lib/systemd/system && systemd-analyze verify quintet*' >"$dir/out" 2>&1 || fail "$(cat "$dir/out")"
! grep -i 'quintet.*\(unknown\|failed\|invalid\|not executable\)' "$dir/out" || fail "a unit is not valid"
[ "$(inside stat -c '%a %U %G' /etc/quintet /var/cache/quintet | tr '\n' ' ')" = "750 root quintet 700 quintet quintet " ] ||
    fail "directories: $(inside stat -c '%a %U %G %n' /etc/quintet /var/cache/quintet)"
inside test -s /usr/share/doc/quintet/copyright || fail "no licences"
inside grep -q 'clap-[0-9].*MIT' /usr/share/doc/quintet/copyright || fail "no licences of libraries"

# A pool of the user quintet, and what an admin makes.
as_quintet() {
    inside runuser -u quintet -- env XDG_CACHE_HOME=/var/cache/quintet QUINTET_REPOSITORY=/srv/pool "$@"
}
mkdir "$root/srv/pool"
inside chown quintet:quintet /srv/pool
as_quintet quintet -q init --no-encryption 2>/dev/null || fail "no pool"
as_quintet quintet -q volume create web1 --size 1M || fail "no volume"
as_quintet quintet -q volume snapshot web1@monday || fail "no snapshot"
echo secret >"$root/etc/quintet/password"
inside systemctl --quiet enable quintet-backup.timer
[ -L "$root/etc/systemd/system/timers.target.wants/quintet-backup.timer" ] || fail "the timer is not enabled"

# completes LINE: what bash makes of it, with the package's script as bash-completion loads it.
cat >"$root/complete" <<'END'
. /usr/share/bash-completion/bash_completion
_load_comp quintet 2>/dev/null || __load_completion quintet
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9
# A terminal's bash breaks words at these signs too.
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:@'
mapfile -t COMP_WORDS < <(sed 's/[@:=]/\n&\n/g; s/ \+/\n/g' <<<"$1")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
word=${COMP_WORDS[COMP_CWORD]}
_quintet quintet "$word" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
END
completes() {
    as_quintet timeout 10 bash /complete "$1" 2>&1
}
completes 'quintet snap' | matches -x snapshots || fail "no command: $(completes 'quintet snap')"
completes 'quintet volume delete w' | matches -x web1 || fail "no volume: $(completes 'quintet volume delete w')"
completes 'quintet forget web' | matches -x web1@monday || fail "no snapshot: $(completes 'quintet forget web')"
completes 'quintet forget web1@m' | matches -x monday || fail "no rest of a name: $(completes 'quintet forget web1@m')"
completes 'quintet policy set vm' | matches -x vm-images || fail "no policy"
completes 'quintet -r /nowhere volume delete w' | matches web1 && fail "the volume of another pool"

# An upgrade keeps what the admin made.
dpkg_inside -i /two.deb
[ "$(inside dpkg-query -W -f '${Version}' quintet)" = 1.0+2 ] || fail "not upgraded"
grep -qx secret "$root/etc/quintet/password" || fail "an upgrade changed /etc/quintet"
[ -L "$root/etc/systemd/system/timers.target.wants/quintet-backup.timer" ] || fail "an upgrade disabled a timer"

# A purge with a pool: the pool, its secret and its owner stay, and it says so.
dpkg_inside --purge quintet
grep -q 'pool in /srv/pool stays' "$dir/out" || fail "it does not say where a pool is: $(cat "$dir/out")"
grep -q '/etc/quintet/password stays' "$dir/out" || fail "it does not say that a secret stays: $(cat "$dir/out")"
grep -qx secret "$root/etc/quintet/password" || fail "the secret of a pool is gone"
[ "$(inside stat -c %U /srv/pool)" = quintet ] || fail "the owner of the pool is gone"
[ ! -e "$root/var/cache/quintet" ] || fail "the cache is left"
[ ! -L "$root/etc/systemd/system/timers.target.wants/quintet-backup.timer" ] || fail "an enabled timer is left"
QUINTET_REPOSITORY=$root/srv/pool exits 0 q volume list
says web1

# A purge without one leaves nothing.
rm -r "$root/srv/pool" "$root/etc/quintet" "$root/complete"
dpkg_inside -i /one.deb
inside systemctl --quiet enable quintet.service
dpkg_inside --purge quintet
rmdir "$root/etc/systemd/system/timers.target.wants" "$root/etc/systemd/system/multi-user.target.wants" 2>/dev/null || true
listed >"$dir/after"
diff "$dir/before" "$dir/after" || fail "a purge leaves something"

# The tarball: the same below /usr/local, with units that call it there.
mkdir "$dir/unpacked"
tar -C "$dir/unpacked" --strip-components=1 -xf "$dir"/one/*.tar.gz
exits 0 "$dir/unpacked/bin/quintet" --version
grep -q '^ExecStart=/usr/local/bin/quintet ' "$dir/unpacked/lib/systemd/system/quintet.service" || fail "other units"
[ -s "$dir/unpacked/share/man/man1/quintet.1.gz" ] || fail "no man page in the tarball"
