# Sourced by ./test, ./quickstart and tests/cli: finds what they need and installs what is missing, aloud.
# The functions about Rust want the top directory of the checkout.

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_be_root() {
    [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null
}

# own_mounts COMMAND...: runs the command again, in a mount namespace of its own, where that is allowed. What a killed
# test leaves mounted goes away with the namespace. FUSE mounts whose process is dead are detached there, and nowhere else:
# with one of them mounted, mkfs.btrfs refuses every file.
own_mounts() {
    local point
    if [ -z "${QUINTET_OWN_MOUNTS:-}" ] && unshare --mount true 2>/dev/null; then
        QUINTET_OWN_MOUNTS=1 exec unshare --mount --propagation private "$@"
    fi
    while read -r point; do
        if LC_ALL=C timeout 5 stat "$point" 2>&1 | grep -q 'endpoint is not connected'; then
            if [ -n "${QUINTET_OWN_MOUNTS:-}" ] && umount -l "$point"; then
                echo "detached for these tests: $point, a mount whose process is dead"
            else
                echo "warning: the process behind the mount $point is dead; mkfs.btrfs fails until it is unmounted"
            fi
        fi
    done < <(cut -d ' ' -f 5 /proc/self/mountinfo)
}

# namespace_of_its_own "$@": the script goes on in a mount namespace of its own, where that is allowed. Nothing that it
# mounts is in the way of a script beside it (mkfs.btrfs fails while a FUSE mount is dead), or outlives it, even killed.
namespace_of_its_own() {
    # The process stays the same.
    if [ "${QUINTET_NAMESPACE_OF:-}" = $$ ]; then
        namespace_has_an_end
    elif unshare --mount true 2>/dev/null; then
        QUINTET_NAMESPACE_OF=$$ exec unshare --mount --propagation private bash "$0" "$@"
    fi
}

# The last process of a namespace unmounts what is mounted there. If that is a FUSE server, and a file system on a loop
# device lies on its file, it waits for itself for ever. So one that serves nobody is the last: it is in no process group of
# the script, and ends when all others have.
namespace_has_an_end() {
    (setsid bash -c '
        tail --pid="$1" -f /dev/null
        for _ in $(seq 300); do
            others=$(pgrep --ns $$ --nslist mnt)
            [ "$others" != $$ ] || break
            sleep 0.2
        done' bash $$ </dev/null >/dev/null 2>&1 3>&- 4>&- &)
}

# long_run: this is `./test --long`; other runs are the short form of a script.
long_run() {
    [ -n "${QUINTET_LONG:-}" ]
}

# need_packages COMMAND:PACKAGE...: installs the packages of commands that are missing. What cannot
# be installed is only said: whoever needs it skips or stops.
need_packages() {
    local pair missing=()
    for pair in "$@"; do
        PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null || ! can_be_root || [ -n "${QUINTET_NO_INSTALL:-}" ]; then
        echo "missing, and not installed from here: ${missing[*]}"
        return 0
    fi
    echo "installing ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update >/dev/null 2>&1 || true
    local package
    for package in "${missing[@]}"; do
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
            "$package" >/dev/null 2>&1 </dev/null || echo "could not install $package"
    done
}

rust_is_new_enough() {
    local found
    rust_needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    found=$(cargo --version 2>/dev/null | cut -d' ' -f2) && [ -n "$found" ] &&
        [ "$(printf '%s\n' "$rust_needed" "$found" | sort -V | sed -n 1p)" = "$rust_needed" ]
}

# Makes sure that cargo is there and new enough, or stops with what to do.
need_rust() {
    [ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
    rust_is_new_enough && return
    if ! command -v rustup >/dev/null; then
        need_packages curl:curl
        echo "installing Rust with rustup from https://rustup.rs, for this user only"
        if ! curl --proto =https --tlsv1.2 -sSf -m 60 https://sh.rustup.rs 2>/dev/null |
            sh -s -- -y -q --profile minimal -c clippy -c rustfmt >/dev/null 2>&1; then
            echo "that did not work. Install Rust $rust_needed or newer (https://rustup.rs), then run this again." >&2
            exit 1
        fi
        . "$HOME/.cargo/env"
    fi
    rust_is_new_enough && return
    echo "installing the stable toolchain with rustup: cargo is older than $rust_needed"
    rustup toolchain install stable --profile minimal -c clippy -c rustfmt >/dev/null 2>&1 || true
    export RUSTUP_TOOLCHAIN=stable
    rust_is_new_enough && return
    echo "cargo is older than $rust_needed and could not be renewed: install Rust $rust_needed or newer" >&2
    exit 1
}

# What rsync needs to see every difference that it can see here.
rsync_flags() {
    case $(rsync --version) in
    *"no ACLs"*) echo -aHXn ;;
    *) echo -aHAXn ;;
    esac
}

# A bounded part of the system's own files, under their own paths: real_tree TARGET MEGABYTES
real_tree() {
    local from size left=$(($2 * 1024))
    mkdir -p "$1"
    for from in /usr/share/* /usr/include /usr/lib/python3* /usr/sbin /usr/bin /usr/lib/*; do
        [ -d "$from" ] && [ ! -L "$from" ] || continue
        size=$(du -skx "$from" 2>/dev/null | cut -f1) || true
        [ "$size" -le "$left" ] || continue
        left=$((left - size))
        mkdir -p "$1${from%/*}"
        # What this user may not read is no part of the tree.
        cp -a "$from" "$1${from%/*}/" 2>/dev/null || true
    done
}

# Everything that a file system can hold and few trees have, in a directory: odd_tree DIRECTORY
odd_tree() (
    mkdir -p "$1" && cd "$1" || exit 1
    mkdir -p sub/deep/er empty sticky
    echo hello >file
    : >nothing
    ln file sub/hard-one
    ln file "sub/deep/hard two"
    ln -s file link
    ln -s /nowhere/at/all dangling
    ln -s "$(printf 'x%.0s' $(seq 200))" long-link
    mkfifo pipe
    printf 'x' >"$(printf 'new\nline')"
    printf 'x' >"$(printf 'latin1-\344\366\374')"
    printf 'x' >'-rf *'
    printf 'x' >"$(printf '%0255d' 7)"
    printf 'x' >' spaces  and "quotes" $HOME '
    mkdir "$(printf 'dir\001\002')" && echo y >"$(printf 'dir\001\002/y')"
    truncate -s 10M all-hole
    truncate -s 5M holes && printf 'data' | dd of=holes bs=1 seek=3000000 conv=notrunc status=none
    head -c 3000000 /dev/urandom >large
    [ "$(id -u)" -ne 0 ] || chmod 0000 nothing
    chmod 4755 file
    chmod 1777 sticky
    chmod 0500 sub/deep
    touch -d '1969-01-01 01:02:03.123456789' large
    touch -d '2038-01-19 03:14:08.999999999' holes
    touch -h -d '2001-02-03 04:05:06.7' link
    [ "$(id -u)" -ne 0 ] || {
        mknod char c 1 3
        mknod block b 7 200
        chown 12345:54321 large
        chown -h 1:2 link
    }
    if command -v setfattr >/dev/null; then
        setfattr -n user.note -v "$(printf 'some\tvalue')" file 2>/dev/null || echo "no user attributes here"
        setfattr -n user.empty sub 2>/dev/null || true
    fi
    if command -v setfacl >/dev/null; then
        setfacl -m u:1234:rwx,g:4321:r file 2>/dev/null || echo "no ACLs here"
        setfacl -d -m u:1234:rx sub 2>/dev/null || true
    fi
    touch -d '2020-05-05 05:05:05.000000005' .
)
