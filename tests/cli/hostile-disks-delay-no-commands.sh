#!/usr/bin/env bash
# Volumes whose file systems are attacks (tens of thousands of groups, loops, logs without end), all in use at once: commands
# answer, volumes are rolled back, the server ends. What cannot be known is said.
. "$(dirname "$0")/common.sh"
requires qemu-io
layout=${LAYOUT:-$here/../../target/ci/examples/layout}
[ -x "$layout" ] || skip "LAYOUT is not the example \`layout\`"
new_pool
kinds='gpt mbr lvm ext ext-journal xfs ntfs btrfs btrfs-parts'
for kind in $kinds; do
    "$layout" hostile "$kind" 3 "$dir/image" || fail "cannot make $kind"
    exits 0 q import "$dir/image" "$kind"
    rm "$dir/image"
    exits 0 q volume clone "$kind" "of-$kind"
    exits 0 q volume snapshot "of-$kind@a"
done
cat >"$dir/policy.csv" <<'CSV'
IO class id,IO class name,Eviction priority,Allocation
0,unclassified,100,1.00
1,metadata,,0.50
CSV
start_server --nbd-socket "$dir/nbd" --policy "$dir/policy.csv"
for kind in $kinds; do
    qemu-io -f raw -t none "nbd+unix:///of-$kind?socket=$dir/nbd" -c 'read -q 0 512' -c 'sleep 600000' >/dev/null 2>&1 &
done
# soon COMMAND...: an attack made it wait for minutes, or for ever.
soon() { timeout 60 "$QUINTET" "$@" >"$dir/out" 2>&1 || fail "$* (exit code $?): $(cat "$dir/out")"; }
soon policy status
soon policy set "$dir/policy.csv"
for kind in $kinds; do
    soon volume rollback "of-$kind@a" --force --yes
done
soon policy status
for job in $(jobs -p); do [ "$job" = "$server" ] || kill "$job" 2>/dev/null || true; done
stop_server
sound
