#!/usr/bin/env bash
# Scripts read what scrub, gc, copy and defrag say with --json: the names of the numbers stay, and their order.
. "$(dirname "$0")/common.sh"
requires python3
other_pool
new_pool
new_other_pool
noise "$dir/image" 2
exits 0 q import "$dir/image" disk
exits 0 q volume clone disk one
# Prints the names in the last message of this type, one a line; those of an inner object below its own.
names() {
    python3 - "$1" "$dir/out" <<'P'
import json, sys
messages = [json.loads(line) for line in open(sys.argv[2])]
def tell(value, before):
    for name, inner in value.items():
        print(before + name)
        for one in (inner if isinstance(inner, list) else [inner]):
            if isinstance(one, dict):
                tell(one, before + name + ".")
                break
tell([m for m in messages if m["message_type"] == sys.argv[1]][-1], "")
P
}
# has TYPE NAME...: these are the names.
has() {
    local type=$1
    shift
    names "$type" >"$dir/names" || fail "no $type: $(cat "$dir/out")"
    printf '%s\n' message_type "$@" | diff - "$dir/names" >"$dir/diff" || fail "$type: $(cat "$dir/diff")"
}
# within TYPE NAME NAME...: these are the names in this inner object.
within() {
    local type=$1 inner=$2
    shift 2
    names "$type" | sed -n "s/^$inner\\.\\([a-z_]*\\)$/\\1/p" >"$dir/names"
    printf '%s\n' "$@" | diff - "$dir/names" >"$dir/diff" || fail "$type, $inner: $(cat "$dir/diff")"
}
pass=(began containers read_bytes verified_by_readers_bytes damaged)
exits 0 q scrub --json
has summary "${pass[@]}" affected
exits 0 q scrub status --json
has scrub_status phase pool_containers pool_stored_bytes verified last "${pass[@]/#/last.}"
exits 0 q gc --json
has summary dry_run snapshots_purged containers nodes_read directories_read live_chunks live_bytes live_stored_bytes \
    mark_memory_bytes copied_bytes cached_bytes as_stored_bytes copied_chunks discarded_containers discarded_bytes merged_containers \
    deleted_containers deleted_bytes kept_back_containers containers_without_room trash_containers trash_bytes \
    held_snapshots held_containers held_bytes
copied=(read_bytes cached_bytes known_bytes data_added data_added_packed chunks_new)
exits 0 q copy --all --json
has copied snapshot_id name total_bytes "${copied[@]}"
has summary dry_run snapshots_copied snapshots_present snapshots_damaged "${copied[@]}" total_duration
toll=(requests device_reads bytes regions places places_per_mib)
run=(traced objects object_bytes ranges ranges_hot ranges_in_pieces ranges_moved ranges_left_to_others ranges_failed
    copied_bytes cached_bytes stored_bytes percent_of_rewriting before "${toll[@]/#/before.}" after "${toll[@]/#/after.}"
    small_regions small_regions.hot_ranges small_regions.amplified_ranges small_regions.over_bound_ranges
    small_regions.written_bytes small_regions.written_stored_bytes
    small_regions.cold_read_bytes_before small_regions.cold_read_bytes_after)
exits 0 q defrag --bypass --json
has summary dry_run "${run[@]}"
exits 0 q defrag status --json
has defrag_status running paused stage by began ranges_done wanted_bytes ended "${run[@]}"
exits 0 q status --json
within status_report gc by ended complete deleted_bytes discarded_bytes
start_server
exits 0 q gc --json
exits 0 q status --json
within status_report server.maintenance task running disk_bytes cache_bytes progress
within status_report server.gc automatic running runs_by_commands runs_by_server deleted_bytes writers_waited \
    held_back_seconds disk_free_bytes last_by last_ended last_complete last_deleted_bytes last_discarded_bytes \
    next_stored_bytes next_free_bytes
