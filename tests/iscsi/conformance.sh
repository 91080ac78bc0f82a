#!/bin/sh
# iscsi-test-cu of libiscsi, all tests of its family ALL, scored: skipped ones are listed with their
# reasons. With blocks of 512 bytes and two paths, with blocks of 4096 bytes, over a slow device; then the
# tests that need physical blocks of several logical ones, or a write-protected disk.
. "$(dirname "$0")/common.sh"
requires iscsi-test-cu python3
trap '' PIPE
bad=
# run LABEL TEST TEST-ARGUMENTS...
run() {
    label=$1 test=$2
    shift 2
    timeout 200 iscsi-test-cu -v -V -t "$test" "$@" >"$dir/log" 2>&1 || true
    python3 "$here/score.py" "$dir/log" 'ProutReserve.Access.*' "$excuse" >"$dir/score" || bad="$bad $label"
    sed "s/^score:/score: $label:/; s/^skipped:/    $label skips:/" "$dir/score"
}
stop() {
    kill "$server"
    wait "$server" || true
}
excuse=
serve --size 134217728
run "512, two paths" ALL -d "$uri" "$uri"
stop
serve --size 134217728 --block 4096
excuse="the tool writes 512 bytes whatever the block is"
run 4096 ALL -d "$uri"
excuse=
stop
serve --size 134217728 --slow-us 300 --slow-write-us 300
run slow ALL -d "$uri"
stop
serve --size 134217728 --physical 4096
for test in CompareAndWrite.InvalidDataOutSize WriteSame10.UnmapUnaligned WriteSame10.InvalidDataOutSize \
    WriteSame16.UnmapUnaligned WriteSame16.InvalidDataOutSize; do
    run "physical 4096, $test" ALL.$test -d "$uri"
done
stop
serve --size 134217728 --read-only
run read-only ALL.ReadOnly -d "$uri"
[ -z "$bad" ] || fail "failed:$bad"
