#!/usr/bin/env bash
# A policy gives the hot part of a disk 1 % of the fast tier. `policy advise` says so and prints better shares, which a
# server takes; `policy set auto` applies them by itself, `policy status` says what it did, and another policy ends it.
. "$(dirname "$0")/common.sh"
[ "$(id -u)" = 0 ] || skip "not root: cannot mount"
requires qemu-io python3 gcc pkg-config fusermount3
pkg-config --exists fuse3 || skip "libfuse3-dev is not installed"
# A slow disk for the pool. What reads it is ended before it.
# shellcheck disable=SC2046
gcc -O1 -w -o "$dir/nas" "$here/nas/nas.c" $(pkg-config --cflags --libs fuse3)
mkdir "$dir/real" "$dir/slow"
NAS=speed "$dir/nas" "$dir/real" "$dir/slow" || skip "FUSE cannot mount here"
mounted+=("$dir/slow")
pool=$dir/slow/pool
export QUINTET_REPOSITORY=$pool
noise "$dir/image" 96
hot=$((24 << 20))
cat >"$dir/wrong.csv" <<CSV
IO class id,IO class name,Eviction priority,Allocation
0,unclassified,150,1.00
1,lba:lt:$((hot / 512)),199,1.00
# fast: 1,199,0.01
2,lba:ge:$((hot / 512)),100,1.00
CSV
new_pool
exits 0 q import "$dir/image" stored
exits 0 q volume clone stored disk
# reads SEED: 3,000 blocks, three of four in the hot part.
reads() {
    python3 - "$1" "$hot" <<'PY' >"$dir/commands"
import random, sys
draw, hot = random.Random(int(sys.argv[1])), int(sys.argv[2])
for _ in range(3000):
    low, high = (0, hot) if draw.random() < 0.75 else (hot, 96 << 20)
    print("read -q", draw.randrange(low, high, 4096), "4k")
PY
    qemu-io -f raw -t none "nbd+unix:///disk?socket=$dir/nbd" <"$dir/commands" >"$dir/io" 2>&1 || fail "$(tail "$dir/io")"
}
# share FILE CLASS: its share of the tier, in hundredths, by the line for the tier or that for all.
share() {
    python3 - "$1" "$2" <<'PY'
import sys
found = {}
for line in open(sys.argv[1]):
    is_fast = line.startswith("# fast: ")
    row = line.removeprefix("# fast: ").strip().split(",")
    if (is_fast or not line.startswith("#")) and row[0] == sys.argv[2]:
        found[is_fast] = round(float(row[-1]) * 100)
print(found.get(True, found.get(False)))
PY
}

# Without a tier, without a policy and without reads there is no advice.
start_server --nbd-socket "$dir/nbd" --policy "$dir/wrong.csv" --qos gc=off scrub=off
exits 1 q policy advise
says 'no fast tier'
exits 1 q policy set auto
says 'no fast tier'
exits 1 q policy set none --every 9
says 'policy set auto'
stop_server
mkdir "$dir/fast"
start_server --nbd-socket "$dir/nbd" --fast "$dir/fast" --fast-size 64M --memory 64M --qos gc=off scrub=off
exits 1 q policy advise
says 'no policy is in force'
exits 1 q policy set auto
says 'no policy is in force'
exits 0 q policy set "$dir/wrong.csv"
exits 1 q policy advise --after 1
says 'too little evidence: 0 of 1000 sampled'

reads 1
reads 2
reads 3
exits 1 q policy advise --after 86400
says 'of 86400 s'
exits 0 q policy advise --after 1
cp "$dir/out" "$dir/better.csv"
[ "$(share "$dir/wrong.csv" 1)" -eq 1 ] || fail "share reads other numbers"
[ "$(share "$dir/better.csv" 1)" -ge 25 ] || fail "the hot part gets no space: $(cat "$dir/better.csv")"
matches '^# advice for policy .*: expects +[1-9]' <"$dir/better.csv" || fail "$(cat "$dir/better.csv")"
matches '^1,lba:.*,199,1.00$' <"$dir/better.csv" || fail "memory's settings changed: $(cat "$dir/better.csv")"
exits 0 q policy advise --after 1 --json
matches '"message_type":"policy_advice".*"better":true' <"$dir/out" || fail "$(cat "$dir/out")"

# Auto comes to the same by itself.
exits 0 q policy set auto --every 1
exits 0 q policy status
says 'auto, since .*; no change yet'
changed() {
    round=$((round + 1))
    reads "$round"
    q policy status | tr '\n' ' ' | matches 'last change .*expects hits in'
}
round=10
wait_until changed
q policy status --json >"$dir/status"
python3 - "$dir/status" <<'PY' || fail "the hot part has no more space: $(cat "$dir/status")"
import json, sys
status = json.loads(open(sys.argv[1]).readline())
hot = next(c for c in status["classes"] if c["class"] == 1)
assert status["auto"]["changes"] >= 1
assert hot.get("fast_allocation_percent", hot["allocation_percent"]) >= 15
PY
matches 'policy auto: expects hits' <"$dir/serve" || fail "the log does not say it: $(cat "$dir/serve")"

# A file that was advised is a policy, and ends auto.
exits 0 q policy set "$dir/better.csv"
exits 0 q policy status
! grep -q 'auto, since' "$dir/out" || fail "auto goes on: $(cat "$dir/out")"
exits 1 q policy advise --after 1
says 'too little evidence: 0 of'
stop_server
sound
