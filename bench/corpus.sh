#!/usr/bin/env bash
# Makes the corpus: tree/ (a real copy of parts of /usr, about 3.0 GB, at least 50,000 files) and disk.img
# (a sparse 2 GiB ext4 image with about 1.5 GB of the same files).
#
# The same machine gives the same corpus; another machine gives another one, so figures are compared
# side by side on one machine and never across machines. A finished corpus is kept as it is.
set -euo pipefail
export LC_ALL=C

bench_dir=${QUINTET_BENCH_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/quintet-bench}
corpus=$bench_dir/corpus
tree=$corpus/tree
image=$corpus/disk.img
tree_bytes_max=3100000000
image_files_bytes=1500000000
files_min=50000

bytes_of() { du -sx -B1 --apparent-size "$1" 2>/dev/null | cut -f1; }

# Built under another name and renamed: whoever waits for the corpus never sees half of it.
make_tree() {
    local new=$corpus/tree.new total=0 dir size
    rm -rf "$new"; mkdir -p "$new"
    for dir in /usr/bin /usr/sbin /usr/libexec /usr/include /usr/share \
               $(find /usr/lib /usr/local -mindepth 1 -maxdepth 1 -type d | sort); do
        [ -d "$dir" ] && [ ! -L "$dir" ] || continue
        size=$(bytes_of "$dir")
        # What does not fit is passed over, smaller ones after it still count.
        [ $((total + size)) -le $tree_bytes_max ] || continue
        mkdir -p "$new$(dirname "$dir")"
        cp -a "$dir" "$new$dir"
        total=$((total + size))
    done
    mv "$new" "$tree"
}

make_image() {
    local subset=$corpus/subset.new new=$corpus/disk.img.new
    rm -rf "$subset"; mkdir -p "$subset"
    # Odd files first, then even ones, until enough: a sample of the whole tree, not of its first directory.
    (cd "$tree" && find . -type f -printf '%s %p\n' | sort -k2 | awk -v max=$image_files_bytes '
        { sizes[NR] = $1; sub(/^[0-9]+ /, ""); names[NR] = $0 }
        END {
            for (start = 1; start <= 2; start++)
                for (i = start; i <= NR; i += 2)
                    if (total + sizes[i] <= max) { total += sizes[i]; print names[i] }
        }' | xargs -d "\n" cp -a --parents -t "$subset")
    rm -f "$new"; truncate -s 2G "$new"
    # Fixed identifiers: the image depends on the files only. No reserved blocks, small journal: 2 GiB is tight.
    mkfs.ext4 -q -F -m 0 -J size=16 -U 5175696e-7465-7400-0000-000000000001 \
        -E hash_seed=5175696e-7465-7400-0000-000000000002,root_owner=0:0 -d "$subset" "$new"
    rm -rf "$subset"
    # mkfs writes zeros in places: give the holes back so that the image is as sparse as its content.
    fallocate --dig-holes "$new"
    mv "$new" "$image"
}

mkdir -p "$corpus"
[ -d "$tree" ] || make_tree
[ -f "$image" ] || make_image

files=$(find "$tree" -type f | wc -l)
printf 'tree:     %s files, %s entries, %s bytes in files\n' "$files" "$(find "$tree" | wc -l)" \
    "$(find "$tree" -type f -printf '%s\n' | awk '{ n += $1 } END { printf "%.0f", n }')"
printf 'disk.img: %s bytes, %s bytes allocated\n' "$(stat -c %s "$image")" "$(($(stat -c %b "$image") * 512))"
[ "$files" -ge $files_min ] || printf 'note: fewer than %s files on this machine\n' $files_min
