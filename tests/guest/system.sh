#!/usr/bin/env bash
# Prints a directory with a small Linux system: `vmlinuz` and `initrd` for qemu's -kernel and -initrd, and `disk.img`,
# a raw ext4 image with the root file system. Debian's kernel for clouds, busybox, and what inside/ holds. A file
# `no-iscsi` in it says why the system has no iSCSI initiator.
# Made on the first call, without root; a change of what it is made of makes another one.
# Exits 77 with the reason when that cannot be.
#
# QUINTET_TEST_CACHE: where (default: ~/.cache/quintet-tests). QUINTET_NO_INSTALL=1 downloads nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
disk_bytes=$((192 << 20))
skip() {
    echo "$*"
    exit 77
}
key=$(cat "$here"/inside/* "$here/system.sh" | sha256sum | cut -c1-12)
cache=${QUINTET_TEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/quintet-tests}
root=$cache/guest-$key
made() {
    [ ! -f "$root/complete" ] || { echo "$root"; exit 0; }
}
made
for tool in apt-get apt-cache dpkg dpkg-deb; do
    command -v $tool >/dev/null || skip "no kernel and busybox for the guest: this is no Debian"
done
for tool in mkfs.ext4 cpio nbd-client; do
    command -v $tool >/dev/null || skip "$tool is not installed"
done
[ "$(dpkg --print-architecture)" = amd64 ] || skip "the guest is made for amd64 only"
mkdir -p "$cache"
# Another script may be making it just now.
exec 9>"$cache/guest.lock"
flock 9
made
# Systems of other versions of this script.
find "$cache" -maxdepth 1 -name 'guest-*' -mtime +7 -exec rm -rf {} +
work=$(mktemp -d "$cache/guest-making.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Packages, once for all versions of this script.
packages=$cache/guest-packages
if [ ! -f "$packages/complete" ]; then
    [ -z "${QUINTET_NO_INSTALL:-}" ] || skip "nothing is to be downloaded"
    kernel=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    [ -n "$kernel" ] || skip "the kernel package linux-image-cloud-amd64 cannot be had"
    mkdir -p "$work/packages"
    (cd "$work/packages" && apt-get -qq download "$kernel" busybox-static >log 2>&1) ||
        skip "the packages $kernel and busybox-static cannot be had"
    touch "$work/packages/complete"
    rm -rf "$packages"
    mv -T "$work/packages" "$packages"
fi

# The initiator: a daemon and its command line for the part in the kernel.
initiator=$cache/guest-packages-iscsi
if [ ! -f "$initiator/complete" ] && [ -z "${QUINTET_NO_INSTALL:-}" ]; then
    mkdir -p "$work/initiator"
    if (cd "$work/initiator" && apt-get -qq download open-iscsi libopeniscsiusr libisns0 >log 2>&1 ||
        apt-get -qq download open-iscsi libopeniscsiusr libisns0t64 >log 2>&1); then
        touch "$work/initiator/complete"
        rm -rf "$initiator"
        mv -T "$work/initiator" "$initiator"
    fi
fi

mkdir -p "$work/kernel" "$work/busybox" "$work/open-iscsi" "$work/result"
dpkg-deb --fsys-tarfile "$packages"/linux-image-*.deb | tar -x -C "$work/kernel"
dpkg-deb --fsys-tarfile "$packages"/busybox-static*.deb | tar -x -C "$work/busybox"
busybox=$(find "$work/busybox" -path '*bin/busybox' | head -n 1)
cp "$work"/kernel/boot/vmlinuz-* "$work/result/vmlinuz"

# Drivers, in the order of loading; what the kernel has built in is not there.
initrd=$work/initrd
mkdir -p "$initrd/bin" "$initrd/modules"
cp "$busybox" "$initrd/bin/busybox"
for module in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk failover net_failover virtio_net nbd; do
    found=$(find "$work/kernel" -name "$module.ko*" | head -n 1)
    [ -n "$found" ] || continue
    cp "$found" "$initrd/modules/"
    basename "$found" >>"$initrd/modules/order"
done
install -m 755 "$here/inside/initrd-init" "$initrd/init"
(cd "$initrd" && find . | cpio --quiet -o -H newc -R 0:0 | gzip -1) >"$work/result/initrd"

# The root file system.
tree=$work/tree
mkdir -p "$tree"/{bin,sbin,usr/sbin,dev,proc,sys,tmp,mnt,data,etc,var/lock}
cp "$busybox" "$tree/bin/busybox"
for name in $("$busybox" --list); do
    [ "$name" = busybox ] || [ -e "$tree/bin/$name" ] || ln -s busybox "$tree/bin/$name"
done
install -m 755 "$here/inside/init" "$here/inside/nbd-task" "$here/inside/iscsi-task" "$tree/sbin/"
echo 'root::0:0:root:/:/bin/sh' >"$tree/etc/passwd"
# with_libraries PROGRAM...: into the tree, with the libraries of this machine.
with_libraries() {
    local program library
    for program; do
        cp -L "$program" "$tree/usr/sbin/"
        ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
            case $library in "$work"/*) mkdir -p "$tree/usr/lib" && cp -L "$library" "$tree/usr/lib/" && continue ;; esac
            mkdir -p "$tree$(dirname "$library")"
            cp -L "$library" "$tree$library"
        done
    done
}
with_libraries "$(command -v nbd-client)" "$(command -v mkfs.ext4)" "$(command -v e2fsck)"
# What follows is for iSCSI alone: without it the other tests run.
if [ -f "$initiator/complete" ]; then
    for package in "$initiator"/*.deb; do dpkg-deb --fsys-tarfile "$package" | tar -x -C "$work/open-iscsi"; done
    export LD_LIBRARY_PATH=$work/open-iscsi/usr/lib/x86_64-linux-gnu
    programs=$(find "$work/open-iscsi" -type f -path '*sbin/iscsi*' '(' -name iscsid -o -name iscsiadm ')')
    if ! missing=$(ldd $programs 2>&1 | grep 'not found'); then
        with_libraries $programs
        mkdir -p "$tree/etc/iscsi" "$tree/modules"
        for module in scsi_common scsi_mod sd_mod scsi_transport_iscsi libiscsi libiscsi_tcp iscsi_tcp; do
            found=$(find "$work/kernel" -name "$module.ko*" | head -n 1)
            [ -n "$found" ] || continue
            cp "$found" "$tree/modules/"
            basename "$found" >>"$tree/modules/iscsi"
        done
        grep -q '^iscsi_tcp' "$tree/modules/iscsi" || echo "the kernel has no iscsi_tcp" >"$work/result/no-iscsi"
    else
        echo "libraries of open-iscsi are not here: $missing" >"$work/result/no-iscsi"
    fi
    unset LD_LIBRARY_PATH
else
    echo "the packages open-iscsi, libopeniscsiusr and libisns0 cannot be had" >"$work/result/no-iscsi"
fi
cp -L /etc/mke2fs.conf "$tree/etc/"
(cd "$tree" && find . -type f ! -path ./etc/manifest -exec sha256sum {} +) | sed 's|  \./|  /|' >"$work/manifest"
mv "$work/manifest" "$tree/etc/manifest"
truncate -s $disk_bytes "$work/result/disk.img"
mkfs.ext4 -q -F -L guest -E root_owner=0:0 -d "$tree" "$work/result/disk.img"
touch "$work/result/complete"
# Somebody else may have been faster.
mv -T "$work/result" "$root" 2>/dev/null || [ -f "$root/complete" ]
echo "$root"
