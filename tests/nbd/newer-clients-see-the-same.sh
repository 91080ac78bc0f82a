#!/bin/sh
# seconds: 600
# The clients of a newer Debian, which ask for extended headers: the behaviours of this directory hold for them too.
# Here are those that only they can show, and one of each tool and each kind of request (negotiation, lists, reads, writes,
# holes, errors, many requests at once). `./test --long` runs all of this directory with them.
. "$(dirname "$0")/common.sh"
newer=$("$here/newer-clients.sh") || { echo "$newer"; exit 77; }
PATH=$newer:$PATH
export PATH
names="extended-headers extended-headers-errors status-in-chosen-contexts info-describes-the-export list-names-the-exports
    changed-blocks zero-and-trim past-the-end-is-refused many-requests-at-once structured-reads-have-holes
    nbdcopy-to-another-export incremental-copy qemu-io-commands"
if [ -n "${QUINTET_LONG:-}" ]; then
    names=$(cd "$here" && ls -- *.sh | sed 's/\.sh$//')
fi
bad= passed=0
for name in $names; do
    case $name in common | measure | newer-clients | newer-clients-see-the-same) continue ;; esac
    status=0
    TMPDIR=$dir sh "$here/$name.sh" >"$dir/said" 2>&1 </dev/null || status=$?
    case $status in
    0) passed=$((passed + 1)) ;;
    77) echo "not with these: $name: $(cat "$dir/said")" ;;
    *) bad="$bad $name"; echo "$name ($status): $(cat "$dir/said")" ;;
    esac
done
echo "$passed passed"
[ -z "$bad" ] || fail "failed:$bad"
[ $passed -gt 0 ] || { echo "none of them can be run here"; exit 77; }
