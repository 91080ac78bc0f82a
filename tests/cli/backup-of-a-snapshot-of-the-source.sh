#!/usr/bin/env bash
# backup --snapshot reads what was there when it began: from a snapshot of each btrfs subvolume, else from a reflink of
# each file, else it says that it could not. It leaves no snapshot behind.
. "$(dirname "$0")/common.sh"
. "$here/loop.sh"
requires_loop
requires rsync
src=$dir/inner/src
new_pool

# fill: a tree, and a copy of it.
fill() {
    mkdir -p "$src/a" "$src/b"
    for n in $(seq 30); do echo "old $n" >"$src/a/$n"; done
    noise "$src/b/long" 12
    truncate -s 5M "$src/b/sparse" && echo data >>"$src/b/sparse"
    rm -rf "$dir/copy"
    cp -a "$src" "$dir/copy"
}
restored() {
    rm -rf "$dir/back"
    exits 0 q restore "latest:$src" --target "$dir/back"
    same "$dir/copy" "$dir/back"
}
snapshots_left() { find "$dir/inner" -maxdepth 2 -name '.quintet-snapshot-*' | wc -l; }

# What is not in memory has no order there.
exits 1 q backup --snapshot --order=cached "$dir"

tested=
if can_make ext4; then
    truncate -s 100M "$dir/disk"
    make_file_system ext4 "$dir/disk"
    attach on "$dir/disk"
    fill
    exits 0 q backup --snapshot "$src"
    says '32 files read as they were at that moment, not from a snapshot of the source'
    restored
    detach
    rm "$dir/disk"
fi

if can_make xfs; then
    truncate -s 400M "$dir/disk"
    make_file_system xfs "$dir/disk"
    attach on "$dir/disk"
    fill
    exits 0 q backup --json --snapshot --force "$src"
    [ "$(number files_read_from_reflinks)" -eq 32 ] || fail "not all files have reflinks: $(cat "$dir/out" "$dir/err")"
    restored
    # A log that grows all the time is no file that changed while it was read.
    cp "$src/b/long" "$src/b/log"
    while sleep 0.02; do echo line >>"$src/b/log"; done &
    writer=$!
    exits 0 q backup --snapshot --force "$src"
    kill $writer
    wait $writer 2>/dev/null || true
    [ "$(ls -A "$src/b")" = "$(printf 'log\nlong\nsparse')" ] || fail "something was left: $(ls -A "$src/b")"
    detach
    rm "$dir/disk"
    tested+=xfs
else
    echo "SKIPPED: no xfs here"
fi

if can_make btrfs && command -v btrfs >/dev/null; then
    truncate -s 400M "$dir/disk"
    make_file_system btrfs "$dir/disk"
    attach on "$dir/disk"
    fill
    btrfs subvolume create "$src/inside" >/dev/null
    echo nested >"$src/inside/file"
    rm -rf "$dir/copy"
    cp -a "$src" "$dir/copy"

    # Everything changes once the snapshot of the first subvolume is there.
    stopped_at_its_snapshot() {
        "$QUINTET" backup --json --force --snapshot --read-concurrency 1 "$src/a" "$src/b" >"$dir/backup" 2>&1 &
        backup=$!
        # Nothing here takes a process: the backup would be done before.
        until compgen -G "$dir/inner/.quintet-snapshot-*" >/dev/null || compgen -G "$dir/inner/*/.quintet-snapshot-*" >/dev/null ||
            ! kill -0 $backup 2>/dev/null; do :; done
        kill -STOP $backup 2>/dev/null || true
    }
    for n in $(seq 2000); do echo "old $n" >"$src/a/more $n"; done
    rm -rf "$dir/copy"
    cp -a "$src" "$dir/copy"
    stopped_at_its_snapshot
    [ "$(snapshots_left)" -eq 1 ] || fail "no snapshot was made, or it was missed: $(cat "$dir/backup")"
    for file in "$src"/a/*; do echo new >"$file"; done
    rm "$src/b/long"
    kill -CONT $backup
    wait $backup || fail "backup: $(cat "$dir/backup")"
    [ "$(snapshots_left)" -eq 0 ] || fail "a snapshot was left"
    grep -q '"source_snapshots":1,' "$dir/backup" || fail "$(cat "$dir/backup")"
    for part in a b; do
        rm -rf "$dir/back"
        exits 0 q restore "latest:$src/$part" --target "$dir/back"
        same "$dir/copy/$part" "$dir/back"
    done

    # One that is killed leaves its snapshot, and the next deletes it.
    stopped_at_its_snapshot
    kill -9 $backup
    wait $backup 2>/dev/null || true
    [ "$(snapshots_left)" -eq 1 ] || fail "the killed one left no snapshot"
    exits 0 q backup --force "$dir/inner"
    ! q ls -l latest | grep -q quintet-snapshot || fail "a snapshot of a backup was backed up"
    rm -rf "$dir/copy"
    cp -a "$src" "$dir/copy"
    exits 0 q backup --json --force --snapshot "$src"
    [ "$(snapshots_left)" -eq 0 ] || fail "the snapshot of the killed one is still there"
    [ "$(number source_snapshots)" -eq 2 ] || fail "not both subvolumes: $(cat "$dir/out" "$dir/err")"
    [ "$(number files_not_from_a_snapshot)" -eq 0 ] || fail "$(cat "$dir/out")"
    restored
    # Nor does a directory show that its subvolume had a snapshot.
    same "$dir/copy/inside" "$src/inside"
    btrfs subvolume delete "$src/inside" >/dev/null
    exits 0 q backup --snapshot "$src"
    # The next run finds everything as it was, and stores nothing but the times of directories above.
    exits 0 q backup --json --snapshot "$src"
    [ "$(number files_unmodified)" -eq "$(number total_files_processed)" ] || fail "changed: $(cat "$dir/out")"
    [ "$(number data_added)" -lt 10000 ] || fail "an unchanged tree was stored again: $(cat "$dir/out")"
    # So does one without a snapshot.
    exits 0 q backup --json "$src"
    [ "$(number data_added)" -lt 10000 ] || fail "the snapshot shows in what is stored: $(cat "$dir/out")"
    detach
    tested+=btrfs
else
    echo "SKIPPED: no btrfs here"
fi
[ -n "$tested" ] || skip "neither xfs nor btrfs here"
