#!/usr/bin/env bash
# Installs the peers and the tools the benchmarks drive. Safe to run again: what is there is kept.
#
# Distribution packages go where the distribution puts them; restic, kopia and rustic are built at
# pinned versions into $QUINTET_BENCH_DIR/peers/bin, because a distribution's versions are years apart.
set -euo pipefail

RESTIC=v0.18.1
KOPIA=v0.21.1
RUSTIC=0.11.4

bench_dir=${QUINTET_BENCH_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/quintet-bench}
prefix=$bench_dir/peers
mkdir -p "$prefix/bin"

say() { printf 'peers: %s\n' "$*"; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# python3-pyfuse3 and python3-llfuse: borg mount takes either, and a distribution may have only one.
packages=(borgbackup nbdkit fio qemu-utils libnbd-bin fuse3 zstd e2fsprogs)
fuse_bindings=(python3-pyfuse3 python3-llfuse)

install_packages() {
    local missing=() p
    for p in "${packages[@]}" "${fuse_bindings[@]}"; do
        dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
    done
    if [ ${#missing[@]} = 0 ]; then say "packages: all present"; return; fi
    say "apt: installing ${missing[*]}"
    as_root apt-get update -qq
    for p in "${missing[@]}"; do
        # One at a time: a package a release lacks must not take the others with it.
        as_root env DEBIAN_FRONTEND=noninteractive nice -n 10 \
            apt-get install -y -qq --no-install-recommends "$p" >/dev/null || say "MISSING: $p"
    done
}

# A scratch module pins the version; `go install path@latest` is refused for modules with replace lines.
build_go() { # name package version
    local name=$1 package=$2 version=$3 scratch
    if [ -x "$prefix/bin/$name" ] && [ "$(cat "$prefix/$name.version" 2>/dev/null)" = "$version" ]; then
        say "$name $version: present"; return
    fi
    say "$name $version: building with $(go version | cut -d' ' -f3)"
    scratch=$(mktemp -d)
    # Joined by &&: errexit does not act to the left of ||.
    (
        cd "$scratch" && go mod init scratch 2>/dev/null &&
        go get "$package@$version" 2>"$scratch/get.log" &&
        nice -n 10 go build -o "$prefix/bin/$name" "$package" &&
        echo "$version" > "$prefix/$name.version"
    ) || { say "FAILED: $name"; tail -3 "$scratch/get.log"; }
    rm -rf "$scratch"
}

build_rustic() {
    if [ -x "$prefix/bin/rustic" ] && "$prefix/bin/rustic" --version | grep -q "$RUSTIC"; then
        say "rustic $RUSTIC: present"; return
    fi
    say "rustic $RUSTIC: building (about ten minutes on two cores)"
    nice -n 10 cargo install rustic-rs --version "$RUSTIC" --locked --quiet --root "$prefix" || say "FAILED: rustic"
}

install_packages
build_go restic github.com/restic/restic/cmd/restic "$RESTIC"
build_go kopia github.com/kopia/kopia "$KOPIA"
build_rustic

report() { # name command...: one line, whatever the tool calls its version flag
    local name=$1; shift
    command -v "$1" >/dev/null && say "$name: $("$@" 2>&1 | head -1)" || say "$name: not installed"
}
report restic "$prefix/bin/restic" version
report kopia "$prefix/bin/kopia" --version
report rustic "$prefix/bin/rustic" --version
for tool in borg fio nbdkit qemu-nbd nbdinfo; do report $tool $tool --version; done
if command -v fio >/dev/null && ! fio --enghelp=nbd 2>&1 | grep -qi uri; then
    say "note: this fio has no nbd engine"
fi
