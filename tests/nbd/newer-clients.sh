#!/bin/sh
# Prints a directory with the NBD clients of a newer Debian than this one, for the start of PATH: they
# know extended headers. Made on the first call, beside the system and without changing it: packages
# from this machine's own mirror, unpacked into a cache folder, run with their own libraries.
# Exits 77 with the reason when that cannot be.
#
# QUINTET_TEST_CACHE: where (default: ~/.cache/quintet-tests). QUINTET_NO_INSTALL=1 downloads nothing.
set -eu
newer=trixie
skip() {
    echo "$*"
    exit 77
}
root=${QUINTET_TEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/quintet-tests}/$newer
made() {
    [ ! -f "$root/complete" ] || { echo "$root/bin"; exit 0; }
}
made
# Another script may be making it just now.
mkdir -p "${root%/*}"
exec 9>"$root.lock"
flock 9
made
[ -z "${QUINTET_NO_INSTALL:-}" ] || skip "nothing is to be downloaded"
command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "this is no Debian"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f $keys ] || skip "the keys of Debian's archive are not here"
# The mirror from which this machine has its own main packages.
mirror=$(apt-get indextargets --format '$(SITE) $(LABEL) $(COMPONENT) $(SHORTDESC)' \
    'Created-By: Packages' 2>/dev/null | awk '$2 == "Debian" && $3 == "main" { print $1; exit }')
[ -n "$mirror" ] || skip "no Debian mirror is configured"
rm -rf "$root"
mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial" "$root/tree" "$root/bin"
: >"$root/apt/status"
echo "deb [signed-by=$keys] $mirror $newer main" >"$root/apt/sources.list"
apt_beside() {
    apt-get -qq -o Dir::Etc::sourcelist="$root/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferencesparts=/dev/null -o Dir::State::lists="$root/apt/lists" \
        -o Dir::State::status="$root/apt/status" -o Dir::Cache="$root/apt/cache" \
        -o APT::Default-Release= -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Debug::NoLocking=true "$@" >"$root/apt/log" 2>&1
}
apt_beside update || skip "the mirror has no $newer, or is out of reach"
apt_beside install -y --download-only --no-install-recommends libnbd-bin python3-libnbd qemu-utils ||
    skip "the packages of $newer cannot be had"
for package in "$root"/apt/cache/archives/*.deb; do
    dpkg -x "$package" "$root/tree"
done
libraries=$(echo "$root"/tree/usr/lib/*-linux-gnu*)
loader=
for found in "$root"/tree/usr/lib*/ld-linux*.so* "$libraries"/ld-linux*.so*; do
    [ ! -x "$found" ] || loader=$found
done
[ -n "$loader" ] || skip "the packages of $newer have no loader for this machine"
# wrap NAME PROGRAM
wrap() {
    printf '#!/bin/sh\nPYTHONHOME="%s" exec "%s" --library-path "%s" "%s" "$@"\n' \
        "$root/tree/usr" "$loader" "$libraries" "$root/tree/usr/bin/$2" >"$root/bin/$1"
    chmod +x "$root/bin/$1"
}
for name in nbdinfo nbdcopy qemu-img qemu-io; do
    wrap $name $name
done
wrap python3 "$(basename "$(readlink "$root/tree/usr/bin/python3")")"
"$root/bin/nbdinfo" --version >/dev/null 2>&1 || skip "the programs of $newer do not run here"
rm -rf "$root/apt"
touch "$root/complete"
echo "$root/bin"
