#!/usr/bin/env bash
# One syntax of patterns in all commands: backup, restore, ls, find and rewrite choose the same files by the same pattern,
# with and without the case of letters, below a PATH too; and one help topic describes it.
. "$(dirname "$0")/common.sh"
new_pool
exits 0 q help patterns
says "^Patterns choose"
cp "$dir/out" "$dir/topic"
exits 0 q patterns
cmp "$dir/out" "$dir/topic" || fail "two texts"
for command in backup restore ls rewrite find; do
    exits 0 q "$command" --help
    says "quintet help patterns"
done

mkdir -p "$dir/src/a/b/c" "$dir/src/x/b"
for name in one.o a/two.O a/b/three.o a/b/keep.o a/b/c/four.txt x/b/five.o x/six.txt; do echo "$name" >"$dir/src/$name"; done
exits 0 q backup "$dir/src" --host all
all=$(q snapshots --json | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p')
# files: the files of a listing, below src.
files() {
    grep '\.\([oO]\|txt\)$' | sed "s#^ *##; s#.*$dir/src/##" | sort | tr '\n' ' '
}
# leaves EXPECTED OPTION...: the files that these excludes leave, in each command.
leaves() {
    local expected=$1
    shift
    exits 0 q backup "$dir/src" --host some --force "$@"
    [ "$(q ls -R latest --host some | files)" = "$expected" ] || fail "backup $*: $(q ls -R latest --host some)"
    [ "$(q ls -R "$all" "$@" | files)" = "$expected" ] || fail "ls $*: $(q ls -R "$all" "$@")"
    rm -rf "$dir/back"
    exits 0 q restore "$all" --target "$dir/back" "$@"
    [ "$(cd "$dir/back" && find "$PWD" -type f | files)" = "$expected" ] || fail "restore $*: $(find "$dir/back")"
    exits 0 q rewrite "$all" "$@" --host rewritten
    [ "$(q ls -R latest --host rewritten | files)" = "$expected" ] || fail "rewrite $*"
    q snapshots --json --host rewritten --host some | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p' | xargs "$QUINTET" -q forget
}
leaves "a/b/c/four.txt a/two.O x/six.txt " --exclude '*.o'
leaves "a/b/c/four.txt x/six.txt " --iexclude '*.o'
leaves "a/b/c/four.txt a/b/keep.o a/two.O x/six.txt " --exclude '*.o' --exclude '!keep.o'
leaves "a/two.O one.o x/b/five.o x/six.txt " --exclude a/b
leaves "a/two.O one.o x/six.txt " --exclude 'src/**/b/'
leaves "one.o x/b/five.o x/six.txt " --exclude "$dir/src/a"
printf '# objects\n  *.o\n!keep.o\n' >"$dir/list"
leaves "a/b/c/four.txt a/b/keep.o a/two.O x/six.txt " --exclude-file "$dir/list"
leaves "a/b/c/four.txt a/b/keep.o x/six.txt " --iexclude-file "$dir/list"

# has EXPECTED PATTERN: the files that a pattern chooses below src.
has() {
    local at="$all:$dir/src"
    [ "$(q ls -R "$at" --include "$2" | files)" = "$1" ] || fail "ls --include $2: $(q ls -R "$at" --include "$2")"
    rm -rf "$dir/back"
    exits 0 q restore "$at" --target "$dir/back" --include "$2"
    [ "$(cd "$dir/back" && find . -type f | sed 's#^\./##' | sort | tr '\n' ' ')" = "$1" ] || fail "restore --include $2"
    [ -n "${directory:-}" ] || [ "$(q find "$2" -s "$at" | files)" = "$1" ] || fail "find $2: $(q find "$2" -s "$at")"
}
has "a/b/keep.o a/b/three.o one.o x/b/five.o " '*.o'
has "a/two.O " '/a/*.O'
has "a/b/c/four.txt " 'c/four.txt'
directory=1
has "a/b/c/four.txt a/b/keep.o a/b/three.o x/b/five.o " b
has "a/b/c/four.txt a/b/keep.o a/b/three.o " '/a/b'
[ "$(q ls -R "$all" --iinclude '*.o' | files)" = "a/b/keep.o a/b/three.o a/two.O one.o x/b/five.o " ] || fail "--iinclude"
exits 0 q find -i '*.o' -s "$all"
says "two.O"
exits 1 q ls -R "$all" --include nothing
says "matches"
for command in "ls $all --include" "restore $all -t none --exclude" "find" "rewrite $all --exclude" "backup src --exclude"; do
    # shellcheck disable=SC2086
    exits 1 q $command '['
    says "invalid pattern"
done
