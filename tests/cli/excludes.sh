#!/usr/bin/env bash
# What is excluded is not stored; a dry run stores nothing and says what it would.
. "$(dirname "$0")/common.sh"
mkdir -p "$dir/src/cache" "$dir/src/keep" && cd "$dir/src"
echo x >a.o && echo x >b.c && echo x >keep/c.o && noise big 2
printf 'Signature: 8a477f597d28d172789f06886806bc55\n' >cache/CACHEDIR.TAG && echo x >cache/x
new_pool
exits 0 q backup --dry-run "$dir/src"
[ "$(snapshots)" -eq 0 ] || fail "a dry run stored"
exits 0 q backup --exclude '*.o' --exclude-caches --exclude-larger-than 1M "$dir/src"
exits 0 q restore "latest:$dir/src" --target "$dir/t"
[ -e "$dir/t/b.c" ] && [ -d "$dir/t/keep" ] || fail "$(find "$dir/t")"
[ ! -e "$dir/t/a.o" ] && [ ! -e "$dir/t/keep/c.o" ] && [ ! -e "$dir/t/big" ] && [ ! -e "$dir/t/cache/x" ] || fail "$(find "$dir/t")"
