#!/usr/bin/env bash
# `quintet host` as a user sees it: by events, by polling, and without privileges.
# alone: by polling, a page that another script's sync flushes between two looks is never seen dirty
. "$(dirname "$0")/filesystems.sh"
# Nothing else happens there, and what happened elsewhere is nobody else's.
on_a_disk_of_its_own || on_a_disk
fail() { echo "FAILED: $*"; exit 1; }
mkdir "$dir/tree" "$dir/tree/sub"
head -c 1000000 /dev/urandom >"$dir/tree/sub/written"
: >"$dir/tree/empty"
truncate -s 1000000 "$dir/tree/hole"

# What was just written is in memory; a hole is not.
"$QUINTET" host cached "$dir/tree" --json >"$dir/json" || fail "cached: exit code $?"
grep -q "\"path\":\"$dir/tree/sub\",\"files\":1,\"bytes\":1000000,\"cached_bytes\":1003520" "$dir/json" || fail "$(cat "$dir/json")"
grep -q '"message_type":"summary","files":3,"bytes":2000000,"cached_bytes":1003520' "$dir/json" || fail "$(cat "$dir/json")"
"$QUINTET" host cached "$dir/tree" | grep -q "50  ##########\.\.\.\.\.\.\.\.\.\.  $dir/tree$" || fail "no bar"
# A second name counts no bytes again; what has more in memory comes first; a device is not opened.
mkdir "$dir/tree/names" "$dir/tree/a-cold"
ln "$dir/tree/sub/written" "$dir/tree/names/again"
"$QUINTET" host cached "$dir/tree" --depth 1 --json >"$dir/json" || fail "cached: exit code $?"
grep -q '"message_type":"summary","files":3,"bytes":2000000,"cached_bytes":1003520' "$dir/json" || fail "twice: $(cat "$dir/json")"
truncate -s 5 "$dir/tree/a-cold/file"
"$QUINTET" host cached "$dir/tree" --depth 1 | awk '{ print $NF }' | tail -n +2 >"$dir/order"
[ "$(tail -n 1 "$dir/order")" = "$dir/tree/a-cold" ] && [ "$(head -n 1 "$dir/order")" = "$dir/tree" ] || fail "$(cat "$dir/order")"
rm -r "$dir/tree/names" "$dir/tree/a-cold"
for command in cached 'defrag analyse'; do
    "$QUINTET" host $command /dev/null 2>"$dir/errors" && fail "$command of a device"
    grep -q "neither a directory nor a regular file" "$dir/errors" || fail "$(cat "$dir/errors")"
    "$QUINTET" host $command "$dir/tree/sub/written" >/dev/null 2>"$dir/errors" || fail "$command of a file: $(cat "$dir/errors")"
done
"$QUINTET" host cached "$dir/nowhere" 2>"$dir/errors" && fail "a path that is not there was shown"

# sum FIELD PATTERN: the field over all lines that have the pattern. A change may be told in two intervals.
sum() { grep -- "$2" "$dir/json" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" | awk '{ all += $1 } END { print all + 0 }'; }
until_seen() {
    wait_until "$@" || fail "not seen: $*: $(cat "$dir/json")"
}
seen() { [ "$(sum "$1" "$2")" -ge "$3" ]; }

# A write, a rename and a removal are seen with the name that the file has then.
events() {
    # Emptied here: the run in the background may open it much later, and until then the file says that the run before has
    # begun. What is written before the first look is no event.
    : >"$dir/json"
    "$QUINTET" host events "$dir/tree" --json --interval 0.5 "$@" >"$dir/json" &
    local watching=$! new="$dir/tree/new\"" renamed="$dir/tree/sub/renamed\""
    until_seen grep -q host_events_begin "$dir/json"
    head -c 40960 /dev/zero >"$dir/tree/new"
    until_seen seen dirtied_pages "$new" 10
    mv "$dir/tree/new" "$dir/tree/sub/renamed"
    # Again, as the system may have flushed it under its old name.
    head -c 40960 /dev/zero | dd of="$dir/tree/sub/renamed" bs=40960 conv=notrunc,fsync status=none
    until_seen seen flushed_pages "$renamed" 10
    rm "$dir/tree/sub/renamed"
    until_seen grep -q '"elsewhere_or_deleted":{"added_pages":[0-9]*,"removed_pages":[1-9]' "$dir/json"
    kill -INT $watching
    wait $watching || fail "events $*: exit code $?"
    [ "$(sum added_pages "$new")" = 10 ] && [ "$(sum removed_pages "$new")" = 0 ] && [ "$(sum dirtied_pages "$new")" = 10 ] || fail "events $*: $(cat "$dir/json")"
}
events --poll
grep -q '"source":"cachestat"' "$dir/json" || fail "polling does not say so"
events
grep -q '"source":"ebpf"' "$dir/json" || echo "SKIPPED: no events here: $(head -n 1 "$dir/json")"

"$QUINTET" host doctor "$dir" >"$dir/doctor" || fail "doctor: exit code $?"
grep -q '^cachestat .*works' "$dir/doctor" || fail "$(cat "$dir/doctor")"
grep -q '^requests for files .*\(works\|missing\)' "$dir/doctor" || fail "$(cat "$dir/doctor")"

# Nobody special: own files only, and a clear word on the rest.
if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null; then
    echo "SKIPPED: not root, or no setpriv: what other users see"
    exit 0
fi
cp "$QUINTET" "$dir/quintet"
chmod 711 "$top"
chmod 755 "$dir" "$dir/tree" "$dir/tree/sub"
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$dir/quintet" "$@"; }
as_nobody host doctor "$dir" >"$dir/doctor" || fail "doctor: exit code $?"
grep -q 'CAP_BPF and CAP_PERFMON' "$dir/doctor" || fail "$(cat "$dir/doctor")"
as_nobody host cached "$dir/tree" >/dev/null 2>"$dir/errors"
[ $? -eq 3 ] && grep -q "ask what is in memory of $dir/tree/sub/written" "$dir/errors" || fail "$(cat "$dir/errors")"
# Many of one kind are one line.
mkdir "$dir/tree/many" && touch "$dir"/tree/many/{1..50}
as_nobody host cached "$dir/tree" >/dev/null 2>"$dir/errors"
[ "$(wc -l <"$dir/errors")" -eq 2 ] && grep -q "more like this" "$dir/errors" || fail "$(cat "$dir/errors")"
rm -r "$dir/tree/many"
chown -R 65534 "$dir/tree"
as_nobody host cached "$dir/tree" --json | grep -q '"cached_bytes":1003520,"dirty_bytes":[0-9]*,"failed":0' || fail "own files are not seen"
as_nobody host events "$dir/tree" --count 1 --json | grep -q '"source":"cachestat","fallback_reason":"eBPF is not permitted' || fail "no reason"

# The capabilities of docs/host.md are enough, also for files of others.
chown -R 0 "$dir/tree"
chmod -R go-rwx "$dir/tree"
capabilities=+bpf,+perfmon,+dac_read_search,+fowner
if ! setpriv --inh-caps $capabilities --ambient-caps $capabilities true 2>/dev/null; then
    echo "SKIPPED: capabilities without root: setpriv cannot give them here"
    exit 0
fi
with_capabilities() {
    setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps $capabilities --ambient-caps $capabilities "$dir/quintet" "$@"
}
with_capabilities host cached "$dir/tree" --json | grep -q '"cached_bytes":1003520,"dirty_bytes":[0-9]*,"failed":0' || fail "capabilities: files of others are not seen"
source=$("$QUINTET" host events "$dir/tree" --count 1 --json | sed -n 's/.*"source":"\([a-z]*\)".*/\1/p')
with_capabilities host events "$dir/tree" --count 1 --json | grep -q "\"source\":\"$source\"" || fail "capabilities: root gets $source, they do not"
exit $failed
