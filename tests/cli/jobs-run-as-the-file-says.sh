#!/usr/bin/env bash
# `run` does what the timers do: backups, forget and gc, copies, checks, in this order, also beside a server. A job that
# fails keeps no other from running, and the worst code is that of the run.
# Sealed: the passwords of both pools come from the files that the configuration names.
. "$(dirname "$0")/common.sh"
sealed
new_pool
other_pool
new_other_pool
(umask 077 && echo "$QUINTET_PASSWORD" >"$dir/password" && echo "$QUINTET_TO_PASSWORD" >"$dir/other.password")
mkdir -p "$dir/src/cache" && echo x >"$dir/src/x" && echo y >"$dir/src/y.iso" && echo z >"$dir/src/cache/z"
echo 'Signature: 8a477f597d28d172789f06886806bc55' >"$dir/src/cache/CACHEDIR.TAG"
export QUINTET_CONFIG=$dir/quintet.toml
cat >"$QUINTET_CONFIG" <<END
[pool]
path = "$pool"
password-file = "$dir/password"
memory = "128M"
[sources.tree]
paths = ["$dir/src"]
exclude = ["*.iso"]
exclude-caches = true
tags = ["nightly"]
when = "daily"
[sources.words]
command = ["sh", "-c", "cat $dir/words"]
stdin-filename = "words.txt"
[retention]
keep-last = 1
[copies.offsite]
to = "$other"
to-password-file = "$dir/other.password"
[check]
parts = 3
[scrub]
END
# Without the passwords of common.sh: those of the file are used.
r() { env -u QUINTET_PASSWORD -u QUINTET_TO_PASSWORD -u QUINTET_REPOSITORY -u QUINTET_TO_REPOSITORY "$QUINTET" run "$@"; }
exits 0 r tree
[ "$(snapshots)" -eq 1 ] || fail "$(snapshots) snapshots"
exits 0 q snapshots
says "nightly"
says "every=1d"
exits 0 q restore latest --target "$dir/back"
[ "$(cd "$dir/back$dir/src" && find . -type f | sort | tr '\n' ' ')" = "./cache/CACHEDIR.TAG ./x " ] ||
    fail "other files: $(find "$dir/back" -type f)"
# One failure: the others run all the same.
exits 1 r
says "^words: store the output"
says "nothing was stored: sh failed"
says "cat: $dir/words: No such file"
[ "$(o snapshots --json | grep -c '"message_type":"snapshot"')" -ge 1 ] || fail "nothing was copied"
# tree twice, of which forget kept one.
[ "$(snapshots)" -eq 1 ] || fail "$(snapshots) snapshots"
grep -h '^[a-z:]*: ' "$dir/err" | sed 's/:* [a-z].*//' >"$dir/order"
[ "$(grep -x 'tree\|words\|forget\|copy:offsite\|check\|scrub\|watch' "$dir/order" | tr '\n' ' ')" = \
    "tree words forget copy:offsite check scrub watch " ] || fail "$(cat "$dir/err")"
echo hello >"$dir/words"
exits 0 r words
[ "$(q dump words.txt@latest)" = hello ] || fail "words.txt"
# Each part of a check has its turn; the run above was one of them.
for _ in 1 2 3; do
    exits 0 r check
    cat "$QUINTET_CACHE_DIR"/check/* >>"$dir/parts"
done
[ "$(sort "$dir/parts" | tr '\n' ' ')" = "1/3 2/3 3/3 " ] || fail "parts: $(cat "$dir/parts")"
# Names: those of copies alone, and no others.
exits 0 r offsite
exits 0 r copy:offsite
exits 1 r nothing
says 'no job "nothing"; it has tree, words, forget, copy:offsite, check, scrub, watch'
# What the file says cannot be said again.
exits 1 q -r "$pool" run tree
says "the configuration file says what --repo would say"
# JSON: objects only, and the end of each job.
exits 0 r --json tree words
says '"message_type":"job_end","job":"tree","code":0'
[ "$(grep -vc '^{"message_type"' "$dir/out")" -eq 0 ] && [ ! -s "$dir/err" ] || fail "loose lines: $(cat "$dir/out" "$dir/err")"
exits 0 r -q tree forget
[ ! -s "$dir/out" ] && [ ! -s "$dir/err" ] || fail "not quiet: $(cat "$dir/out" "$dir/err")"
# A wrong password has its own code.
echo wrong >"$dir/password"
exits 12 r tree
exits 12 r
echo "$QUINTET_PASSWORD" >"$dir/password"
# Beside a server, which holds the pool.
start_server
exits 0 r tree words forget offsite check
grep -q . "$dir/serve" || fail "the server said nothing"
stop_server
sound
