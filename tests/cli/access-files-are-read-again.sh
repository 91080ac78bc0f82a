#!/usr/bin/env bash
# The file of --iscsi-access is read again when it changes: who was added gets in, who was removed or has a secret of
# before is put out, and stays out; sessions that are still allowed go on. A file that is refused changes nothing, is said
# in the log and by status, and no longer when it is in order.
. "$(dirname "$0")/common.sh"
requires python3
new_pool
exits 0 q volume create web --size 8M
write() { cat >"$dir/new" && chmod "${1:-600}" "$dir/new" && mv "$dir/new" "$dir/access"; }
user() { printf 'user = %s\nsecret = the secret of %s\ninitiator = iqn.x:%s\n' "$1" "${2:-$1}" "$1"; }
{ user one && user two; } | write
start_server --iscsi-listen 0.0.0.0:0 --iscsi-access "$dir/access"
port=$(sed -n 's|.*iscsi://0.0.0.0:\([0-9]*\).*|\1|p' "$dir/serve")
cat >"$dir/sessions.py" <<'P'
import sys
from initiator import *
def enter(user, secret=None, expect=0):
    return Initiator(name=f"iqn.x:{user}").login_chap(user, f"the secret of {secret or user}", expect=expect)
def say(what):
    print(what, flush=True)
    return input()
one, two = enter("one"), enter("two")
enter("three", expect=0x0202)
say("both are in")
assert two.is_dropped()
assert one.run(bytes(6))[0] == 0
enter("two", expect=0x0202)
three = enter("three")
say("two is out and three is in")
assert one.run(bytes(6))[0] == 0 and three.run(bytes(6))[0] == 0
say("a refused file changes nothing")
assert three.is_dropped() and one.run(bytes(6))[0] == 0
enter("three", expect=0x0201)
enter("three", "four")
say("a secret of before is good for nothing")
P
mkfifo "$dir/in"
PYTHONPATH=$here/../iscsi PYTHONDONTWRITEBYTECODE=1 PORTAL=127.0.0.1:$port TARGET=iqn.2026-11.org.quintet:web \
    timeout --foreground 120 python3 "$dir/sessions.py" <"$dir/in" >"$dir/out" 2>&1 &
sessions=$!
exec 3>"$dir/in"
# until_said FILE TEXT: half a minute.
until_said() {
    local tries=0
    until grep -q "$2" "$1"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "not said: $2: $(cat "$1" "$dir/out" "$dir/serve")"
        sleep 0.05
    done
}
until_said "$dir/out" 'both are in'
{ user one && user three; } | write
until_said "$dir/serve" 'session ended: initiator iqn.x:two may no longer use target iqn.2026-11.org.quintet:web'
! grep -q 'initiator iqn.x:one may no longer' "$dir/serve" || fail "$(cat "$dir/serve")"
echo >&3
until_said "$dir/out" 'two is out and three is in'
# Refused: a mistake, an open address, others may read it, no file.
refused() {
    until_said "$dir/serve" "changed and is refused: .*$1"
    exits 3 q status
    says 'the file of --iscsi-access'
    says 'correct the file'
    q status --json >"$dir/status" || true
    grep -q "iscsi_access_refused.*$1" "$dir/status" || fail "$1: $(grep -o "in force as it is now[^}]*" "$dir/status") $(cat "$dir/serve")"
}
{ user one && echo nonsense; } | write
refused 'access, line 4: this is neither'
{ user one | grep -v initiator; } | write
refused 'other machines can reach it'
user three | write 644
refused 'mode 0644'
mv "$dir/access" "$dir/away"
refused 'access: no such file'
! grep -q 'may no longer use' <(grep -v ':two' "$dir/serve") || fail "$(cat "$dir/serve")"
echo >&3
until_said "$dir/out" 'a refused file changes nothing'
# In order again, with the rules that hold.
{ user one && user three; } | write
until_said "$dir/serve" 'is in order again'
q status >"$dir/status" || true
! grep -q 'iscsi-access' "$dir/status" || fail "$(cat "$dir/status")"
{ user one && user three four && printf '[export none]\n'; } | write
until_said "$dir/serve" 'session ended: initiator iqn.x:three'
until_said "$dir/serve" 'a section for none, which is no volume or image yet'
echo >&3
until_said "$dir/out" 'a secret of before is good for nothing'
echo >&3
wait $sessions || fail "$(cat "$dir/out")"
! grep -q 'the secret of' "$dir/serve" || fail "a secret was printed"
stop_server
sound
