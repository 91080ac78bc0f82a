#!/usr/bin/env bash
# The iSCSI initiator of the Linux kernel, in a machine: it logs in with mutual CHAP, makes a file system and writes files,
# each with its own sync. The server is killed beneath it and started again: the session comes back by itself, and every
# file is there. Then the machine's power fails, and a second machine finds everything and a sound file system.
# seconds: 900
. "$(dirname "$0")/common.sh"
[ ! -e "$system/no-iscsi" ] || skip "$(cat "$system/no-iscsi")"
new_pool
exits 0 q volume create disk --size 256M
cat >"$dir/access" <<E
user = guest
secret = secret-of-the-guest
mutual-user = quintet
mutual-secret = secret-of-the-server
initiator = iqn.2026-11.org.example:guest
E
chmod 600 "$dir/access"
port=0
serve() { start_server --iscsi-listen "127.0.0.1:$port" --iscsi-access "$dir/access"; }
# Its own root file system needs no server.
machine_with_initiator() {
    boot iscsi "$port,disk,$1" "$system/disk.img" -snapshot -netdev user,id=net -device virtio-net-pci,netdev=net
}
serve
port=$(port_of iscsi)
machine_with_initiator make
heard "synced 3"
grep -q "guest: disk of $((256 << 20)) bytes, write through" "$dir/serial" || fail "another disk: $(machine)"
kill_server
serve
heard "came back"
heard "verified"
heard "wrote without a sync"
files=$(synced)
end_guest
machine_with_initiator check
heard "verified again $files"
guest_ended
stop_server
sound
echo "$files files"
