#!/usr/bin/env bash
# The NBD client of the Linux kernel, in a machine: several connections, mkfs, parallel writes each with its own sync,
# trim; the power fails and the server is killed, and a second machine finds everything and a sound file system.
# seconds: 900
. "$(dirname "$0")/common.sh"
new_pool
exits 0 q volume create disk --size 1G
start_server --nbd-listen 127.0.0.1:0
port=$(port_of nbd)
# Its own root file system needs no server.
machine_with_client() {
    boot nbd "$port,disk,$1,$2" "$system/disk.img" -snapshot -netdev user,id=net -device virtio-net-pci,netdev=net
}
machine_with_client 4 make
heard "made and verified"
grep -q "guest: disk of $((1 << 30)) bytes" "$dir/serial" || fail "another size: $(machine)"
heard "wrote without a sync"
kill_server
end_guest
start_server --nbd-listen "127.0.0.1:$port"
machine_with_client 2 check
heard "verified again"
guest_ended
stop_server
sound
