#!/usr/bin/env bash
# Lost files are not counted as restored; --partial gives what is left of them, says which parts are damaged and marks the file.
. "$(dirname "$0")/common.sh"
requires python3
mkdir "$dir/src" && cd "$dir/src"
noise large 40
for n in $(seq 20); do head -c 3000 /dev/urandom >"small$n"; done
new_pool
exits 0 q backup "$dir/src"
# A whole container goes: more than any parity of containers mends.
lost=$(find "$pool/containers" -type f -size +12M | sort | sed -n 2p)
[ -n "$lost" ] || fail "no second container: $(ls -lR "$pool/containers")"
rm "$lost"
rm -f "$pool/mirror/${lost#"$pool/"}"
exits 21 q restore "latest:$dir/src" --target "$dir/plain" --json
cp "$dir/out" "$dir/plain.json"
restored=$(number files_restored)
there=$(find "$dir/plain" -type f | wc -l)
[ "$restored" -eq "$there" ] || fail "$restored counted as restored, $there are there"
[ "$(number files_damaged)" -eq $((21 - there)) ] || fail "$(cat "$dir/out")"
[ ! -e "$dir/plain/large" ] || fail "a damaged file is there without --partial"
exits 21 q restore "latest:$dir/src" --target "$dir/plain2"
says "NOT restored: they are damaged"
says "^restored $there files"
exits 21 q restore "latest:$dir/src" --target "$dir/left" --partial --json
python3 - "$dir" <<'PY' || fail "what is left is wrong"
import json, os, sys
top = sys.argv[1]
lines = [json.loads(line) for line in open(top + "/out")]
large = [l for l in lines if l["message_type"] == "partial" and l["item"].endswith("/large")]
assert len(large) == 1, lines
summary = [l for l in lines if l["message_type"] == "summary"][0]
assert summary["files_restored"] == 21 - summary["files_damaged"], summary
assert summary["files_partial"] >= 1 and summary["files_damaged"] == 0, summary
source, found = open(top + "/src/large", "rb").read(), bytearray(open(top + "/left/large", "rb").read())
assert len(source) == len(found)
assert large[0]["bytes_damaged"] < len(source), "nothing is left"
for part in large[0]["damaged"]:
    at, end = part["offset"], part["offset"] + part["length"]
    assert not any(found[at:end]), "a damaged range is not zero"
    found[at:end] = source[at:end]
assert source == found, "what is called whole is not"
assert summary["bytes_restored"] + large[0]["bytes_damaged"] <= summary["total_bytes"]
assert os.stat(top + "/left/large").st_mtime == 0, "it looks as if it were whole"
assert os.stat(top + "/left/large").st_blocks * 512 < len(source), "damaged ranges are no holes"
try:
    value = os.getxattr(top + "/left/large", "user.quintet.damaged").decode()
    assert value.split(",")[0] == "%(offset)d+%(length)d" % large[0]["damaged"][0], value
except OSError as e:
    assert e.errno in (95, 61), e
PY
# What is whole stays when only a part of it could take its place.
mkdir "$dir/whole" && cp -p large "$dir/whole/large"
exits 21 q restore "latest:$dir/src" --target "$dir/whole" --partial
cmp large "$dir/whole/large" || fail "a part replaced a whole file"
says "the existing file is unchanged"
# Nobody takes it for the whole file: once the pool has it again, it is written.
exits 21 q repair
exits 0 q backup "$dir/src"
exits 0 q restore "latest:$dir/src" --target "$dir/left" --overwrite if-changed
same "$dir/src" "$dir/left"
