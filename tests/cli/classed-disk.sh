# Sourced by scripts whose clients list a file system, read its small files and scan it.

# classed_disk DIRECTORIES FILES: makes an ext4 of 128 MiB in $dir/image, with so many directories of so many small files
# each, and one large file; and a policy in $dir/mine.csv to which small files matter, and large ones do not.
classed_disk() {
    local directory file
    mkdir "$dir/tree"
    for directory in $(seq "$1"); do
        mkdir "$dir/tree/d$directory"
        for file in $(seq "$2"); do head -c 6000 /dev/urandom >"$dir/tree/d$directory/$file"; done
    done
    noise "$dir/tree/large" 40
    truncate -s 128M "$dir/image"
    mkfs.ext4 -q -F -b 4096 -d "$dir/tree" "$dir/image" || fail "mkfs.ext4"
    cat >"$dir/mine.csv" <<'CSV'
IO class id,IO class name,Eviction priority,Allocation
0,unclassified,160,1.00
1,metadata,0,1.00
2,journal,5,0.10
# fast: 2,200,0.05
3,file_size:le:65536,10,1.00
4,file_size:gt:65536,150,1.00
CSV
}

# policy_status: what `policy status` says, in $dir/status.json.
policy_status() {
    q policy status --json | grep policy_status >"$dir/status.json"
}

# class CLASS FIELD: a number of `policy status`.
class() {
    policy_status
    python3 -c '
import json, sys
print(next(c[sys.argv[3]] for c in json.load(open(sys.argv[1]))["classes"] if c["class"] == int(sys.argv[2])))' \
        "$dir/status.json" "$1" "$2"
}

is_ready() {
    q status | matches 'fast tier: in use'
}
