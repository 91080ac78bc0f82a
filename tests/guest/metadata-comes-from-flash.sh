#!/usr/bin/env bash
# A machine with a disk over iSCSI lists a file system, reads its small files and then the whole disk. After a restart of
# the server its metadata and small files come from flash, although it read everything in between. Its writes are
# acknowledged by a journal on flash; without that device the server does not start, and says what giving it up costs.
# seconds: 900
. "$(dirname "$0")/common.sh"
. "$here/../cli/classed-disk.sh"
[ ! -e "$system/no-iscsi" ] || skip "$(cat "$system/no-iscsi")"
requires mkfs.ext4 python3
mkdir "$dir/fast"
classed_disk 12 40
cat >"$dir/access" <<E
user = guest
secret = secret-of-the-guest
mutual-user = quintet
mutual-secret = secret-of-the-server
initiator = iqn.2026-11.org.example:guest
E
chmod 600 "$dir/access"
new_pool
exits 0 q import "$dir/image" stored
exits 0 q volume clone stored disk
port=0
options=(--iscsi-access "$dir/access" --policy "$dir/mine.csv" --fast "$dir/fast" --fast-size 64M --journal-on fast
    --qos gc=off scrub=off)
serve() {
    start_server --iscsi-listen "127.0.0.1:$port" "${options[@]}"
    wait_until is_ready
}
look() {
    boot iscsi "$port,disk,look" "$system/disk.img" -snapshot -netdev user,id=net -device virtio-net-pci,netdev=net
    heard "saved"
    listed=$(sed -n 's/.*guest: listed \(.*\)/\1/p' "$dir/serial" | tr -d '\r')
    [ "${listed%% *}" -ge 481 ] || fail "the machine lists $listed"
    end_guest
}
serve
port=$(port_of iscsi)
look
first=$listed
stop_server

serve
look
[ "${listed#* }" != "" ] || fail "the machine read nothing: $first, then $listed"
metadata=$(class 1 tier_hits) small=$(class 3 tier_hits) bulk=$(class 4 tier_hits)
echo "chunks from flash after a restart: metadata $metadata, small files $small, the large file $bulk"
[ "$metadata" -ge 5 ] || fail "metadata did not come from flash: $(q policy status)"
[ "$small" -ge 80 ] || fail "small files did not come from flash: $(q policy status)"
[ "$bulk" -le $((small / 10)) ] || fail "a scan went to flash: $(q policy status)"
stop_server

# The scan of the second machine took nothing away either. The file that it saved is in the journal, on flash only.
serve
look
[ "$(class 3 tier_hits)" -ge $((small / 2)) ] || fail "a scan pushed small files out: $(q policy status)"
kill_server
mv "$dir/fast" "$dir/pulled"
mkdir "$dir/fast"
exits 1 q serve --iscsi-listen "127.0.0.1:$port" "${options[@]}"
says "journal of the volumes is on a fast device"
says "journal-lost"
start_server --iscsi-listen "127.0.0.1:$port" --iscsi-access "$dir/access" --journal-on pool --journal-lost
exits 21 q status
says "volume disk has lost writes"
says "given up as lost"
stop_server
