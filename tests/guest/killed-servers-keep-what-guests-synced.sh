#!/usr/bin/env bash
# The server is killed while a machine writes, again and again: each time its file system is sound, and the machine boots
# again from the restarted server and finds everything that it had synced.
# Twice in the short form: the second kill hits a journal that was replayed once. Six times in the long form.
# seconds: 900
. "$(dirname "$0")/common.sh"
rounds=2
! long_run || rounds=6
# Small, so that checkpoints are killed too.
serve_system --journal 16M
exits 0 q volume clone system web
last=0
for round in $(seq $rounds); do
    boot write "$last" "$(uri web)"
    heard "found all $last"
    heard "synced $((last + 2 + round))"
    sleep "0.$((RANDOM % 10))"
    kill_server
    # Without its disk it can only be switched off.
    end_guest
    last=$(synced)
    serve_system --journal 16M
    sound_file_system web
done
boot check "$last" "$(uri web)"
heard "found all $last"
heard "nothing else"
guest_ended
sound_file_system web
stop_server
sound
echo "$last files over $rounds killed servers"
