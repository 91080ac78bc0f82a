#!/usr/bin/env bash
# One flipped bit and one lost 4 KiB sector in every container lose nothing: readers get what was stored, check says
# what is damaged (21), scrub and repair put it back as it was (20), byte for byte, without another pool.
# Sealed: parity is made of sealed bytes, and what it restores must open again.
# seconds: 600
. "$(dirname "$0")/common.sh"
sealed
mkdir "$dir/src"
for n in 1 2 3; do noise "$dir/src/noise$n" 6; done
seq 200000 >"$dir/src/numbers"
new_pool
exits 0 q parity show
says '2 percent'
exits 0 q backup "$dir/src"
exits 0 q check --read-data
cp -a "$pool/containers" "$dir/whole"

# spoil HOW: a sector of every container, another one each time.
turn=0
spoil() {
    local file len
    turn=$((turn + 1))
    while read -r file; do
        len=$(($(stat -c %s "$file") / 4096))
        case $1 in
        zero) dd if=/dev/zero of="$file" bs=4096 seek=$(((turn * 7919) % (len * 3 / 4))) count=1 conv=notrunc status=none ;;
        garbage) dd if=/dev/urandom of="$file" bs=4096 seek=$(((turn * 104729 + 3) % len)) count=1 conv=notrunc status=none ;;
        header) printf '\377' | dd of="$file" bs=1 seek=100 conv=notrunc status=none ;;
        footer) printf '\377' | dd of="$file" bs=1 seek=$((len * 4096 - 300)) conv=notrunc status=none ;;
        run) dd if=/dev/urandom of="$file" bs=4096 seek=$((len / 3)) count=$((len > 900 ? 17 : 2)) conv=notrunc status=none ;;
        tail) truncate -s -6000 "$file" ;;
        esac
    done < <(find "$pool/containers" -type f)
}

for how in zero garbage header footer run tail; do
    spoil $how
    rm -rf "$dir/back"
    exits 0 q restore "latest:$dir/src" --target "$dir/back"
    # The others may lie where a restore does not look: in the parity, or in one of two copies.
    case $how in zero | run) says 'parity restored' ;; esac
    diff -r "$dir/src" "$dir/back" || fail "$how: not what was stored"
    exits 21 q check --read-data
    says 'parity can restore'
    says 'affected files and images: 0'
    case $how in
    zero | header | run) exits 20 q scrub ;;
    *) exits 20 q repair ;;
    esac
    says 'every snapshot is complete'
    exits 0 q check --read-data
    # Between regions lies nothing, and nobody looks there.
    exits 0 q scrub
done
while read -r file; do
    cmp "$dir/whole/$file" "$pool/containers/$file" || fail "$file is not as it was written"
done < <(cd "$dir/whole" && find . -type f)

# More than the parity makes up for is damage as ever: said, with what it reaches.
container=$(find "$pool/containers" -type f -size +1M | sort | sed -n 1p)
dd if=/dev/urandom of="$container" bs=4096 seek=20 count=800 conv=notrunc status=none
exits 21 q check --read-data
says noise
exits 21 q scrub
exits 0 q backup "$dir/src"
exits 0 q scrub

exits 0 q parity set 0
exits 0 q parity show
says 'no parity'
exits 1 q parity set 51
