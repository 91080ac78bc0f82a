#!/usr/bin/env bash
# `top` and `policy status` on a terminal of 80 columns: no line is longer, whatever volumes are called, names lose their
# end and numbers nothing. Files and programs get whole names.
. "$(dirname "$0")/common.sh"
requires script stty nbdinfo nbdcopy
long=$(printf 'v%.0s' $(seq 60))
cat >"$dir/policy.csv" <<XX
IO class id,IO class name,Eviction priority,Allocation
0,unclassified,22,1.00
1,volume:$long,1,0.50
XX
noise "$dir/image" 2
new_pool
exits 0 q volume create "$long" --size 4M
start_server --nbd-socket "$dir/nbd" --policy "$dir/policy.csv"
nbdcopy "$dir/image" "nbd+unix:///$long?socket=$dir/nbd" || nbdinfo "nbd+unix:///$long?socket=$dir/nbd"
# on COLUMNS COMMAND...: on a terminal of this width.
on() {
    local columns=$1
    shift
    script -qec "stty cols $columns rows 60; $(printf '%q ' "$QUINTET" "$@")" "$dir/typed" >/dev/null 2>&1 </dev/null ||
        fail "$* failed: $(cat -v "$dir/typed")"
    sed '/^Script \(started\|done\)/d' "$dir/typed" | tr -d '\r' >"$dir/lines"
}
for command in "top --once --interval 0.2" "policy status"; do
    # shellcheck disable=SC2086
    on 80 $command
    ! grep -qE '.{81}' "$dir/lines" || fail "$command: $(grep -E '.{81}' "$dir/lines")"
    grep -q 'vvv\.\.\.' "$dir/lines" || fail "$command shortens no name: $(cat "$dir/lines")"
    # shellcheck disable=SC2086
    on 300 $command
    grep -q "$long" "$dir/lines" || fail "$command shortens names where there is room: $(cat "$dir/lines")"
    # shellcheck disable=SC2086
    exits 0 q $command
    grep -q "$long" "$dir/out" || fail "$command: a file got no whole name: $(cat "$dir/out")"
    [ -z "${VERBOSE:-}" ] || { on 80 $command && cat "$dir/lines"; }
done
stop_server
sound
