#!/usr/bin/env bash
# Who gets how much of --memory: of the server that holds the pool, with what is in use, or of one that
# would be started. The shares sum to no more than the whole.
. "$(dirname "$0")/common.sh"
requires python3
new_pool

# planned MIB: the plan in $dir/out is of so many MiB, and sums to nearly that.
planned() {
    python3 - "$1" "$dir/out" <<'END' || fail "$(cat "$dir/out")"
import json, sys
whole = int(sys.argv[1]) << 20
report = next(r for r in map(json.loads, open(sys.argv[2])) if "memory_plan" in r)
plan = report["memory_plan"]
total = sum(share["planned_bytes"] for share in plan["shares"])
assert plan["memory_bytes"] == whole, plan
assert whole - 64 < total <= whole, (total, plan)
assert any("used_bytes" in share for share in plan["shares"]) == ("server" in report), plan
END
}

for mib in 32 256 1000; do
    exits 0 q status --memory-plan --memory "${mib}M" --json
    planned "$mib"
done
exits 0 q status --memory-plan
says 'plan: besides: requests of more than 1 MiB'
says 'plan: 256 MiB in all'
says 'plan: index 18.0 MiB$'
exits 0 q status
! grep -q 'plan:' "$dir/out" || fail "$(cat "$dir/out")"

start_server --memory 64M
exits 0 q status --memory-plan --json
planned 64
# The server's, whatever who asks would have.
exits 0 q status --memory-plan --memory 1G
says 'plan: 64.0 MiB in all'
says 'plan: pages .*, in use '
stop_server
