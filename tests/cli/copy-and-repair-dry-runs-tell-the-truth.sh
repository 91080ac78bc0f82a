#!/usr/bin/env bash
# `copy --dry-run` and `repair --dry-run` count what the real run then counts, on an equal pool, to the last byte; and
# change nothing. Pools with other keys, with the same, with older states, with damage, with and without parity.
# Sealed: pools with other keys and with the same are what it compares.
# seconds: 600
. "$(dirname "$0")/common.sh"
sealed
requires python3
other_pool
export QUINTET_REPLICA_PASSWORD=$QUINTET_TO_PASSWORD
cat >"$dir/compare.py" <<'PY'
import json, sys
def lines(path):
    found = []
    for line in open(path):
        message = json.loads(line)
        if message["message_type"] in ("status", "exit_error"):
            continue
        # Only a dry run leaves them as they are.
        if "parity restored the data that was read" in message.get("message", ""):
            continue
        message["message_type"] = message["message_type"].replace("would_copy", "copied")
        for name in ("dry_run", "total_duration"):
            message.pop(name, None)
        found.append(message)
    return found
dry, real = lines(sys.argv[1]), lines(sys.argv[2])
if dry != real:
    sys.exit("planned and done differ:\n%s" % "\n".join("%s\n%s\n" % both for both in zip(dry, real) if both[0] != both[1]))
print(json.dumps(real[-1]))
PY
# All files of a pool, but for who reads it now and what readers leave of damage.
contents() {
    (cd "$1" && find . -type f ! -path './readers/*' ! -path './cache/damage*' -exec sha256sum {} + | sort)
}
# same_copy CODE ARGUMENT...: both runs, and what the real one printed.
same_copy() {
    local code=$1
    shift
    contents "$other" >"$dir/before"
    exits "$code" q copy "$@" --dry-run --json
    cp "$dir/out" "$dir/planned"
    contents "$other" | diff "$dir/before" - >/dev/null || fail "a dry run of copy changed the pool"
    exits "$code" q copy "$@" --json
    python3 "$dir/compare.py" "$dir/planned" "$dir/out" || fail "copy $*"
}
# same_repair CODE ARGUMENT...: a dry run repairs nothing, so 20 is 21 there.
same_repair() {
    local code=$1 planned=$1
    shift
    [ "$code" = 0 ] || planned=21
    contents "$pool" >"$dir/before"
    exits "$planned" q repair "$@" --dry-run --json
    cp "$dir/out" "$dir/planned"
    contents "$pool" | diff "$dir/before" - >/dev/null || fail "a dry run of repair changed the pool"
    exits "$code" q repair "$@" --json
    python3 "$dir/compare.py" "$dir/planned" "$dir/out" || fail "repair $*"
}
# rot POOL SIZE: three bytes in the middle of every container of at least so many bytes, but for the newest.
rot() {
    local container
    find "$1/containers" -type f | sort | head -n -1 | xargs stat -c '%s %n' | awk -v min="$2" '$1 >= min { print $2 }' >"$dir/containers"
    while read -r container; do
        printf '\377\376\375' | dd of="$container" bs=1 seek=$(($(stat -c %s "$container") / 2)) conv=notrunc status=none
    done <"$dir/containers"
}
whole_again() {
    rm -rf "$pool" && cp -r "$dir/$1" "$pool"
}

real_tree "$dir/src/real" 6
noise "$dir/src/large" 9
cp "$dir/src/large" "$dir/src/again"
ln "$dir/src/large" "$dir/src/linked"
truncate -s 64M "$dir/src/sparse"
echo small >"$dir/src/small"
noise "$dir/image" 20
truncate -s 64M "$dir/image"
noise "$dir/stream" 10
new_pool --parity 0
new_other_pool
exits 0 q backup "$dir/src" --tag daily
exits 0 q backup "$dir/src/small"
exits 0 q import "$dir/image" disk
"$QUINTET" backup --stdin --stdin-filename dump <"$dir/stream" >/dev/null 2>&1
echo one chunk | "$QUINTET" backup --stdin --stdin-filename short >/dev/null 2>&1
exits 0 q volume clone disk@latest machine
exits 0 q volume snapshot machine@monday
cp -r "$pool" "$dir/older"

# Other keys: into an empty pool, again, and what changed since.
same_copy 0 --all
same_copy 0 --all
cp -r "$other" "$dir/replica"
echo more >"$dir/src/real/new"
noise "$dir/change" 1
dd if="$dir/change" of="$dir/image" bs=1M seek=7 conv=notrunc status=none
{ head -c 5000000 "$dir/stream"; echo inserted; tail -c +5000001 "$dir/stream"; } >"$dir/stream2"
exits 0 q backup "$dir/src" --tag daily
exits 0 q import "$dir/image" disk
"$QUINTET" backup --stdin --stdin-filename dump <"$dir/stream2" >/dev/null 2>&1
same_copy 0 --all --compression none
cp -r "$pool" "$dir/newer"
cp -r "$other" "$dir/newer-other"
# For people too: the same numbers.
exits 0 q copy latest --dry-run
says 'would be copied\|exist there'

# The same keys: what the receiver has is not even read.
whole_again newer
rm -rf "$other" && cp -r "$dir/older" "$other"
QUINTET_TO_PASSWORD=$QUINTET_PASSWORD same_copy 0 --all

# The receiver is damaged, and knows it: what is lost there is sent again.
rm -rf "$other" && cp -r "$dir/newer-other" "$other"
find "$other/containers" -type f -size +1M | sort | head -n 1 | xargs rm
o repair >/dev/null 2>&1 || true
same_copy 0 --all
# The source is damaged: what cannot be read is not copied, in both runs.
rm -rf "$other"
new_other_pool
find "$pool/containers" -type f -size +1M | sort | head -n 1 | xargs rm
same_copy 21 --all

# Repair: nothing wrong; damage without a replica; with one of other keys, with the same, with one that lacks some.
whole_again newer
same_repair 0
same_repair 0 --replica "$dir/newer-other"
rot "$pool" 1000
same_repair 21
whole_again newer
rot "$pool" 1000
same_repair 20 --replica "$dir/newer-other"
sound
whole_again newer
rot "$pool" 100000
same_repair 21 --replica "$dir/replica"
whole_again newer
find "$pool/containers" -type f -size +1M -delete
QUINTET_REPLICA_PASSWORD=$QUINTET_PASSWORD same_repair 20 --replica "$dir/newer"
sound
# Damage that is known since earlier.
whole_again newer
rot "$pool" 100000
exits 21 q scrub
same_repair 20 --replica "$dir/newer-other"
# For people.
whole_again newer
rot "$pool" 100000
exits 21 q repair --replica "$dir/newer-other" --dry-run
says 'would be stored again from'
says 'would be repaired: every snapshot would be complete'

# With parity: what it restores is counted, and nothing is put back.
rm -rf "$pool"
exits 0 q init --parity 5
exits 0 q backup "$dir/src"
rot "$pool" 1000
same_repair 20
sound
# What was put back is not to be put back any more.
rot "$pool" 1000
exits 20 q repair
! grep -q 'to restore them' "$dir/out" "$dir/err" || fail "$(cat "$dir/err")"
rot "$pool" 1000
exits 20 q scrub
! grep -q 'to restore them' "$dir/out" "$dir/err" || fail "$(cat "$dir/err")"

# A server runs both: the pool is its own.
start_server
rm -rf "$other"
new_other_pool
same_copy 0 --all
same_repair 0
stop_server
