#!/usr/bin/env bash
# Policies for I/O classes: those that ship, files, and why a request has its class.
. "$(dirname "$0")/common.sh"
unset QUINTET_REPOSITORY
"$QUINTET" policy show | grep -q '^t2 ' || fail "t2 is not listed"
"$QUINTET" policy show t2 >"$dir/t2.csv" || fail "show: exit code $?"
head -n 1 "$dir/t2.csv" | grep -q '^IO class id,IO class name,Eviction priority,Allocation$' || fail "no policy file: $(cat "$dir/t2.csv")"
# What is shown is a policy file.
"$QUINTET" policy show "$dir/t2.csv" | cmp - "$dir/t2.csv" || fail "a shown policy is another one when it is read"
explain() { "$QUINTET" policy explain "$@" --json | grep policy_explanation; }
explain t2 --file-size 1M --file-offset 0 >"$dir/begin"
explain "$dir/t2.csv" --file-size 1M --file-offset 8K >"$dir/later"
# Of later bytes flash takes nothing, memory does.
takes_nothing='"fast_tier":"takes nothing of it"'
grep -q "$takes_nothing" "$dir/begin" && fail "flash does not take the first 4 KiB: $(cat "$dir/begin")"
grep -q "$takes_nothing" "$dir/later" || fail "flash takes later bytes: $(cat "$dir/later")"
grep -q 'may fill the whole cache' "$dir/later" || fail "memory has no later bytes: $(cat "$dir/later")"
"$QUINTET" policy explain t2 --contents journal | grep -q 'matches and decides' || fail "no rule decides"
# Mistakes are named with their place.
sed '$s/.*/9,metadata,900,1.00/' "$dir/t2.csv" >"$dir/bad.csv"
"$QUINTET" policy show "$dir/bad.csv" 2>"$dir/errors" && fail "a bad priority was accepted"
grep -q "bad.csv: line $(wc -l <"$dir/bad.csv")" "$dir/errors" || fail "$(cat "$dir/errors")"
"$QUINTET" policy show t9 2>"$dir/errors" && fail "t9 was accepted"
grep -q 't1, t2' "$dir/errors" || fail "$(cat "$dir/errors")"
# Settings of the fast tier are a part of the policy, and it says what it takes.
"$QUINTET" policy show vm-images >"$dir/vm.csv" || fail "show: exit code $?"
grep -q '^# fast: 2,' "$dir/vm.csv" || fail "the fast tier's settings are not shown: $(cat "$dir/vm.csv")"
"$QUINTET" policy show "$dir/vm.csv" | cmp - "$dir/vm.csv" || fail "a shown policy is another one when it is read"
"$QUINTET" policy show vm-images --json | grep '"class":2,' | grep -q '"fast_eviction_priority":200' || fail "not in JSON"
"$QUINTET" policy explain vm-images --contents metadata | grep -q 'fast tier: takes it whatever the access pattern' ||
    fail "metadata is not important"
explain vm-images --contents journal | grep -q '"fast_tier":"takes random reads, while it has free space;' ||
    fail "the journal is not low on the fast tier"
{ cat "$dir/vm.csv"; echo '# fast: 9,1,1.00'; } >"$dir/bad.csv"
"$QUINTET" policy show "$dir/bad.csv" 2>"$dir/errors" && fail "settings of a class that is not there were accepted"
grep -q "line $(wc -l <"$dir/bad.csv"), IO class id: class 9 has no rule" "$dir/errors" || fail "$(cat "$dir/errors")"
# A rule that no request can match is named.
printf '%s\n' 'IO class id,IO class name,Eviction priority,Allocation' '5,file_size:lt:10&file_size:gt:20,0,1.00' >"$dir/never.csv"
"$QUINTET" policy show "$dir/never.csv" 2>"$dir/errors" >/dev/null || fail "show: exit code $?"
grep -q 'class 5: no request can match its rule' "$dir/errors" || fail "no warning: $(cat "$dir/errors")"
