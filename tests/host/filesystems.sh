# Sourced by the scripts that make file systems in $dir and mount them at $mnt.
failed=0
skip() { echo "SKIPPED: $*"; }
wrong() { echo "FAILED: $*"; failed=1; }

# make FS IMAGE SIZE: a file system in a file.
make() {
    rm -f "$2"
    truncate -s "$3" "$2"
    case $1 in
    ext4) mkfs.ext4 -q -F "$2" ;;
    *) "mkfs.$1" -q -f "$2" ;;
    esac >/dev/null 2>&1
}

# fresh FS [SIZE] [OPTIONS]: an empty one at $mnt. Says what cannot be done here.
fresh() {
    command -v "mkfs.$1" >/dev/null || { skip "$1: no mkfs.$1"; return 1; }
    make "$1" "$dir/image" "${2:-400M}" || { skip "$1: mkfs.$1 failed"; return 1; }
    mount -o "loop,noatime${3:+,$3}" "$dir/image" "$mnt" 2>/dev/null || { skip "$1: cannot mount it here"; return 1; }
}
