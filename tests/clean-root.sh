# Sourced after cli/common.sh by scripts that need a clean root of Debian with dpkg and systemd and the packages: makes
# $root, `inside`, which runs a command there, and `pack`. The first run makes the root (a minute or two),
# later ones take it from the build's directory.
requires_root
requires mmdebstrap dpkg-deb
[ -n "${XTASK:-}" ] || skip "XTASK does not name the program xtask: run this with ./test cli/$(basename "$0" .sh)"
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
sources=/etc/apt/sources.list.d/debian.sources
[ -e "$sources" ] || sources=/etc/apt/sources.list
[ -n "$release" ] && [ -e "$sources" ] || skip "this is no Debian: nobody makes a clean root"

# A root of the release of this machine, as the program of the build needs its libraries.
kept=$(dirname "$XTASK")/clean-root-$release.tar
exec 8>"$kept.lock"
flock 8
if [ ! -s "$kept" ]; then
    timeout 400 mmdebstrap --quiet --variant=minbase --include=systemd,man-db,bash-completion \
        "$release" "$dir/root.tar" "$sources" >"$dir/log" 2>&1 ||
        skip "cannot make a clean root, perhaps without a network: $(tail -n 1 "$dir/log")"
    mv "$dir/root.tar" "$kept"
fi
exec 8>&-
root=$dir/root
mkdir "$root"
tar -C "$root" --exclude './dev/*' -xf "$kept"

# Small, so that packing is quick.
program=$dir/quintet
cp "$(command -v "$QUINTET")" "$program"
! command -v strip >/dev/null || strip --strip-debug "$program"
pack() {
    "$XTASK" package --program "$program" --version "$1" --to "$2" >"$dir/log" 2>&1 || fail "$(cat "$dir/log")"
}

inside() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "$@"
}
# `dpkg` takes the terminal, and reads answers; here are none.
dpkg_inside() {
    inside dpkg "$@" </dev/null >"$dir/out" 2>&1 || fail "dpkg $*: $(cat "$dir/out")"
}
mount -t proc proc "$root/proc" 2>/dev/null || skip "cannot mount /proc here"
mounted+=("$root/proc")
# Programs want it, and this one does no harm.
mknod -m 666 "$root/dev/null" c 1 3 2>/dev/null || skip "cannot make devices here"
ln -s /proc/self/fd "$root/dev/fd"
