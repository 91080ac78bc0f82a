#!/usr/bin/env bash
# The server is killed while a machine writes, again and again: each time the machine boots again from the restarted
# server and finds everything that it had synced, and its file system is sound.
. "$(dirname "$0")/common.sh"
# Small, so that checkpoints are killed too.
serve_system --journal 16M
exits 0 q volume clone system web
last=0
for round in 1 2 3; do
    boot write $((last + 1)) "$(uri web)"
    heard "synced $((last + 2 + round))"
    sleep "0.$((RANDOM % 10))"
    kill_server
    # Without its disk it can only be switched off.
    end_guest
    last=$(synced)
    serve_system --journal 16M
    boot check "$last" "$(uri web)"
    heard "found all $last"
    guest_ended
    sound_file_system web
done
stop_server
sound
echo "$last files over $round killed servers"
