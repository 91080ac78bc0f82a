#!/bin/sh
# nbdinfo and nbdsh see what changed since an earlier state, as a dirty bitmap.
. "$(dirname "$0")/common.sh"
requires nbdinfo
requires_nbdsh
serve_controlled --size 16777216
map() {
    nbdinfo --map="qemu:dirty-bitmap:$1" "$uri" | sed 's/^ *//' | tr -s ' ' >"$dir/map"
}
nbdsh -u "$uri" -c 'h.pwrite(b"old " * 4096, 0)'
control mark disk monday
map monday
echo "0 16777216 0 clean" | cmp -s - "$dir/map" || fail "$(cat "$dir/map")"
nbdsh -u "$uri" -c 'h.pwrite(b"n" * 8192, 1048576)'
control mark disk tuesday
nbdsh -u "$uri" -c 'h.trim(4096, 0)'
map monday
printf '0 4096 1 dirty\n4096 1044480 0 clean\n1048576 8192 1 dirty\n1056768 15720448 0 clean\n' |
    cmp -s - "$dir/map" || fail "$(cat "$dir/map")"
map tuesday
printf '0 4096 1 dirty\n4096 16773120 0 clean\n' | cmp -s - "$dir/map" || fail "$(cat "$dir/map")"
# All contexts are listed, and a state that is not there is not made up.
nbdinfo "$uri" >"$dir/info"
grep -q 'qemu:dirty-bitmap:tuesday' "$dir/info" || fail "$(cat "$dir/info")"
grep -q 'qemu:dirty-bitmap:monday' "$dir/info"
nbdinfo --map=qemu:dirty-bitmap:sunday "$uri" >"$dir/map" 2>&1 && fail "$(cat "$dir/map")"
# Wildcards list a namespace.
nbdsh -c "
h.set_opt_mode(True)
h.connect_uri('$uri')
def listed(query):
    found = []
    h.clear_meta_contexts()
    if query:
        h.add_meta_context(query)
    h.opt_list_meta_context(lambda name: found.append(name))
    return found
changes = ['qemu:dirty-bitmap:tuesday', 'qemu:dirty-bitmap:monday']
assert listed('qemu:') == changes, listed('qemu:')
assert listed('qemu:dirty-bitmap:') == changes
assert listed('qemu:dirty-bitmap:monday') == changes[1:]
assert listed('base:') == ['base:allocation']
assert listed(None) == ['base:allocation'] + changes
assert listed('other:') == []
h.opt_abort()
"
