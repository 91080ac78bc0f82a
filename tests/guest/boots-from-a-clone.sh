#!/usr/bin/env bash
# A machine boots from a clone of an imported image, finds everything that it had synced, writes and syncs, and loses its
# power, again and again. The image under the clone stays what it was.
# Sealed: a disk from which machines boot is what encryption is for.
# seconds: 900
. "$(dirname "$0")/common.sh"
sealed
serve_system
exits 0 q volume clone system web
# The first boot reads everything that the image came with.
boot write 0 "$(uri web)"
heard "found all 0"
heard "synced 5"
# The power fails while it writes.
end_guest
first=$(synced)
boot write "$first" "$(uri web)"
heard "found all $first"
heard "synced $((first + 4))"
end_guest
last=$(synced)
# A machine that is switched off finds itself the same after the server was restarted, and under another name.
stop_server
serve_system
exits 0 q volume snapshot web@off
exits 0 q volume clone web@off copy
boot check "$last" "$(uri copy)"
heard "found all $last"
# What was never written is missed: the guest does look.
heard "file $((last + 1000000)) is not what was synced"
heard "nothing else"
guest_ended
for name in web copy; do sound_file_system $name; done
qemu-img compare -f raw -F raw "$system/disk.img" "$(uri system)" >"$dir/compare" || fail "the image changed: $(cat "$dir/compare")"
exits 0 q volume clone system fresh
qemu-img compare -f raw -F raw "$system/disk.img" "$(uri fresh)" >"$dir/compare" || fail "a new clone differs: $(cat "$dir/compare")"
stop_server
sound
echo "$last files over 2 power failures"
