#!/usr/bin/env bash
# A machine boots from a clone of an imported image, writes and syncs, and loses its power; it boots again and finds
# everything that it had synced. The image under the clone stays what it was.
. "$(dirname "$0")/common.sh"
serve_system
exits 0 q volume clone system web
# The first boot reads everything that the image came with.
boot check 0 "$(uri web)"
heard "found all 0"
guest_ended
boot write 1 "$(uri web)"
heard "synced 5"
# The power fails while it writes.
end_guest
first=$(synced)
boot check "$first" "$(uri web)"
heard "found all $first"
guest_ended
boot write $((first + 1)) "$(uri web)"
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
guest_ended
for name in web copy; do sound_file_system $name; done
qemu-img compare -f raw -F raw "$system/disk.img" "$(uri system)" >"$dir/compare" || fail "the image changed: $(cat "$dir/compare")"
exits 0 q volume clone system fresh
qemu-img compare -f raw -F raw "$system/disk.img" "$(uri fresh)" >"$dir/compare" || fail "a new clone differs: $(cat "$dir/compare")"
# What was never written is missed: the guest does look.
boot check 1 "$(uri fresh)"
heard "file 1 is not what was synced"
guest_ended
stop_server
sound
echo "$last files over 2 power failures"
