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
# A list from another system: a byte order mark, and CR before LF. Patterns that come from one too.
printf '\357\273\277# not these\r\n*.o\r\nbig\r\n' >"$dir/list"
exits 0 q backup --exclude-file "$dir/list" --exclude $'cache\r' "$dir/src"
exits 0 q ls -R latest
! grep -q '\.o\|big\|cache' "$dir/out" || fail "$(cat "$dir/out")"
printf '\357\273\277%s\r\n' "$dir/src/keep" >"$dir/list"
for option in --files-from --files-from-verbatim; do
    exits 0 q backup $option "$dir/list"
    exits 0 q ls -R latest
    grep -q 'c.o' "$dir/out" || fail "$option: $(cat "$dir/out")"
done
printf '\377\376a\0' >"$dir/list"
exits 1 q backup --exclude-file "$dir/list" "$dir/src"
says "UTF-16"
exits 1 q backup --exclude $'a\nb' "$dir/src"
says "several lines"
