#!/usr/bin/env bash
# The compiled programs in the repository are those of the source beside them.
set -u
cd "$(dirname "$0")/../../crates/linux_host/bpf" || exit 1
dir=$(mktemp -d "${TMPDIR:-/tmp}/quintet-object.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' INT TERM HUP
sources="sources $(cat kernel.h ./*.bpf.c build | cksum)"
if [ "$(sed -n 1p built-with)" != "$sources" ]; then
    echo "the sources changed: run crates/linux_host/bpf/build and commit what it writes"
    exit 1
fi
if ! command -v clang >/dev/null || [ ! -f /usr/include/bpf/bpf_helpers.h ]; then
    echo "SKIPPED: nobody compiled the programs anew: clang, llvm or libbpf-dev is not installed"
    exit 0
fi
./build "$dir" || exit 1
if ! cmp -s built-with "$dir/built-with"; then
    echo "SKIPPED: the objects are from another clang or other headers, so their bytes are not compared"
    exit 0
fi
for object in *.bpf.o; do
    cmp "$object" "$dir/$object" || exit 1
done
