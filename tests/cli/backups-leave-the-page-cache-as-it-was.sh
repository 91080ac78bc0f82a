#!/usr/bin/env bash
# A backup reads first what is in memory, drops what it brought in and nothing else; the order changes nothing that is
# stored. Where the system does not say what is in memory, it says so if it was asked for.
. "$(dirname "$0")/common.sh"
. "$here/loop.sh"

# Files on a tmpfs are in memory anyway.
mkdir "$dir/shm"
mount_tmpfs "$dir/shm" 8M
cp /bin/ls "$dir/shm/"
new_pool
exits 0 q backup "$dir/shm"
! grep -q 'in memory' "$dir/out" "$dir/err" || fail "a backup talks of memory unasked: $(cat "$dir/err")"
exits 0 q backup --force --order=cached "$dir/shm"
says 'read in the order of the tree, because'

# Nor are files of other users asked about.
if command -v setpriv >/dev/null; then
    cp "$QUINTET" "$dir/quintet"
    chmod 755 "$dir" "$dir/quintet"
    mkdir -m 777 "$dir/theirs" "$dir/known-to-them"
    mkdir "$dir/two"
    echo root >"$dir/two/of-root"
    echo own >"$dir/two/own"
    chown 65534 "$dir/two/own"
    as_another() {
        QUINTET_REPOSITORY=$dir/theirs/pool QUINTET_CACHE_DIR=$dir/known-to-them \
            setpriv --reuid 65534 --regid 65534 --clear-groups "$dir/quintet" "$@"
    }
    exits 0 as_another init --no-encryption
    exits 0 as_another backup --order=cached "$dir/two"
    says '1 file read in the order of the tree, because .* only root and the owner of a file may ask'
    exits 0 as_another backup --force "$dir/two"
    ! grep -q 'in memory' "$dir/out" "$dir/err" || fail "a backup talks of memory unasked: $(cat "$dir/err")"
else
    echo "SKIPPED: no setpriv: files of other users"
fi

requires_loop
can_make ext4 || skip "there is no ext4 here"
truncate -s 400M "$dir/disk"
make_file_system ext4 "$dir/disk"
attach on "$dir/disk"
src=$dir/inner/src
for n in $(seq -w 40); do
    mkdir -p "$src/$n/hot" "$src/$n/cold"
    for m in 1 2 3; do
        noise "$src/$n/cold/$m" 1
        noise "$src/$n/hot/$m" 1
    done
    head -c 3000 /dev/urandom >"$src/$n/cold/small"
done
# Longer than the walker leaves to one lane; in memory in the middle.
noise "$src/long" 40
detach
attach on "$dir/disk"
device=$(findmnt -no SOURCE "$dir/inner")
"$QUINTET" host cached "$src" >"$dir/out" 2>&1 || skip "no cachestat here: $(cat "$dir/out")"

cached() { # DIRECTORY...: bytes in memory
    local each
    for each; do "$QUINTET" host cached "$each" --json | sed -n 's/.*"summary".*"cached_bytes":\([0-9]*\).*/\1/p'; done | awk '{ sum += $1 } END { print sum + 0 }'
}
sectors_read() { awk '{ print $3 }' "/sys/block/${device#/dev/}/stat"; }
total=$(du -sb --apparent-size "$src" | cut -f1)
# The machine may drop all caches at any moment: what was read is read again then.
for _ in 1 2 3; do
    # A read with direct I/O brings nothing in, and one past the kernel's read-ahead only itself.
    cat "$src"/*/hot/* >/dev/null
    dd if="$src/long" of=/dev/null bs=1M skip=20 count=8 status=none
    hot_before=$(cached "$src"/*/hot) all_before=$(cached "$src") read_before=$(sectors_read)
    [ "$hot_before" -lt $((100 << 20)) ] || break
done
[ "$hot_before" -ge $((100 << 20)) ] || fail "the hot set is not in memory: $hot_before"
exits 0 q backup --json "$src"
read=$((($(sectors_read) - read_before) * 512))
hot_after=$(cached "$src"/*/hot) all_after=$(cached "$src")
[ $((hot_after * 100)) -ge $((hot_before * 95)) ] || fail "of $hot_before bytes of the hot set $hot_after are left"
[ "$all_after" -le $((all_before + all_before / 100)) ] || fail "$all_before bytes were in memory, now $all_after"
saved=$((100 - read * 100 / total)) was_cached=$((all_before * 100 / total))
[ $((saved - was_cached)) -ge -10 ] && [ $((saved - was_cached)) -le 10 ] ||
    fail "$was_cached % were in memory, $saved % of the reads were saved"
found=$(number bytes_found_in_memory) dropped=$(number bytes_dropped_from_memory)
[ $((found + dropped)) -ge $((total - total / 20)) ] || fail "found $found, dropped $dropped, of $total"
[ "$(number files_read_ahead_of_order)" -gt 40 ] || fail "nothing was read ahead: $(cat "$dir/out")"

# The other order stores nothing new: the same recipes, the same directories.
exits 0 q backup --json --force --order=tree "$src"
[ "$(number files_read_ahead_of_order)" -eq 0 ] || fail "--order=tree reads ahead"
# The directories above the tree have other times now.
[ "$(number data_added)" -lt 10000 ] || fail "another order stores other chunks: $(cat "$dir/out")"
# Files that have not changed are not asked about.
exits 0 q backup --json "$src"
[ "$(number files_asked_about_memory)" -eq 0 ] || fail "unchanged files were asked about"
exits 0 q restore "latest:$src" --target "$dir/back"
same "$src" "$dir/back"
echo "in memory $was_cached %, saved $saved %, of the hot set $((hot_after * 100 / hot_before)) % left"
