# Sourced by the behaviour scripts: a scratch directory, a pool's place, and what they need. The program is $QUINTET.
#
# A script runs beside others, also beside itself: all that it makes is below $dir, where it also runs; ports are the
# server's choice (port 0). What it mounts nobody else sees.
# Pools are not encrypted, as deriving a key costs more than most commands: what is about keys, or what encryption might
# change, calls `sealed` first and says why in its head.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tools.sh"
. "$here/../scratch.sh"
namespace_of_its_own "$@"
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin NO_COLOR=1
case ${QUINTET:-} in */*) QUINTET=$(realpath "$QUINTET") ;; esac
dir=$(scratch cli)
pool=$dir/pool
server=
mounted=()
finish() {
    local status=$? where job
    # The server, and whatever else a script that failed half-way has not ended.
    for job in $server $(jobs -p); do kill -9 "$job" 2>/dev/null || true; done
    for where in ${mounted[@]+"${mounted[@]}"}; do umount -l "$where" 2>/dev/null || true; done
    chmod -R u+rwx "$dir" 2>/dev/null || true
    rm -rf "$dir"
    return $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
cd "$dir"
export QUINTET_REPOSITORY=$pool QUINTET_CACHE_DIR=$dir/known
unset QUINTET_REPOSITORY_FILE QUINTET_PASSWORD QUINTET_PASSWORD_FILE QUINTET_PASSWORD_COMMAND QUINTET_PASSPHRASE_FD \
    QUINTET_TO_PASSWORD QUINTET_REPLICA_PASSWORD QUINTET_COMPRESSION QUINTET_PROGRESS_FPS QUINTET_MEMORY \
    QUINTET_FAST QUINTET_FAST_SIZE
# What `init` is told of every pool of the script.
init_options=(--no-encryption)

# sealed: from here on pools are encrypted, and each has a password of its own.
sealed() {
    init_options=()
    export QUINTET_PASSWORD='correct horse'
}

skip() {
    echo "$*"
    exit 77
}

fail() {
    echo "$*"
    exit 1
}

# Skips the script, aloud, unless the tools are there.
requires() {
    local tool
    for tool; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
}

# Skips the script, aloud, unless qemu's tools can speak iSCSI.
requires_qemu_iscsi() {
    requires qemu-img qemu-io
    ! { qemu-img info iscsi://127.0.0.1:1/x/0 2>&1 || true; } | matches -i 'unknown\|not find\|not found' ||
        skip "qemu-block-extra is not installed"
}

requires_root() {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
}

# A small file system of its own that goes away with the script: mount_tmpfs DIRECTORY SIZE
mount_tmpfs() {
    requires_root
    mkdir -p "$1"
    mount -t tmpfs -o "size=$2" tmpfs "$1" 2>/dev/null || skip "cannot mount a tmpfs here"
    mounted+=("$1")
}

q() {
    "$QUINTET" "$@"
}

# Shows the pool in $mount until the script ends or unshow: show [OPTION...]
mount=$dir/mount
show() {
    [ -e /dev/fuse ] || skip "/dev/fuse is missing"
    [ -d "$mount" ] || mkdir "$mount" 2>/dev/null || true
    mounted+=("$mount")
    "$QUINTET" mount "$mount" "$@" >"$dir/mount.log" 2>"$dir/mount.err" &
    server=$!
    wait_until is_shown
    if ! kill -0 $server 2>/dev/null; then
        ! grep -qi 'Operation not permitted\|Permission denied\|fusermount3' "$dir/mount.err" || skip "$(cat "$dir/mount.err")"
        fail "mount: $(cat "$dir/mount.err")"
    fi
}

is_shown() {
    [ -d "$mount/snapshots" ] || ! kill -0 "$server"
}

# Unmounts; the program must end by itself, in good order.
unshow() {
    umount "$mount" 2>/dev/null || fusermount3 -u "$mount" || fail "cannot unmount"
    ended
}

# The program must end with 0.
ended() {
    local code=0
    wait "$server" || code=$?
    server=
    [ $code -eq 0 ] || fail "mount ended with $code: $(cat "$dir/mount.log" "$dir/mount.err")"
}

# exits CODE COMMAND...: fails unless the command exits so. Its output is in $dir/out and $dir/err.
exits() {
    local expected=$1 found=0
    shift
    "$@" >"$dir/out" 2>"$dir/err" </dev/null || found=$?
    [ "$found" -eq "$expected" ] ||
        fail "$* exited with $found, expected $expected: $(tail -n 20 "$dir/out" "$dir/err")"
}

# says TEXT: the last command under `exits` said so, on either stream.
says() {
    grep -qi -- "$1" "$dir/out" "$dir/err" ||
        fail "nobody said \"$1\": $(tail -n 20 "$dir/out" "$dir/err")"
}

# ... | matches PATTERN: like grep -q, but what comes is read to its end: a writer that is cut off fails, under pipefail.
matches() {
    local text
    text=$(cat)
    grep -q "$@" <<<"$text"
}

# new_pool [OPTION...]
new_pool() {
    exits 0 q init ${init_options[@]+"${init_options[@]}"} "$@"
}

# A second pool, $other; `copy` sends there. Encrypted pools have different passwords. o COMMAND...: the program on it.
other_pool() {
    other=$dir/other
    export QUINTET_TO_REPOSITORY=$other
    [ -z "${QUINTET_PASSWORD:-}" ] || export QUINTET_TO_PASSWORD='another horse'
}
o() {
    if [ -n "${QUINTET_TO_PASSWORD:-}" ]; then
        QUINTET_REPOSITORY=$other QUINTET_PASSWORD=$QUINTET_TO_PASSWORD "$QUINTET" "$@"
    else
        QUINTET_REPOSITORY=$other "$QUINTET" "$@"
    fi
}
new_other_pool() {
    exits 0 o init ${init_options[@]+"${init_options[@]}"} "$@"
}

# number NAME [OBJECTS]: of the JSON in the last output of `exits`, the last number of this name, or the one so many
# objects from the end.
number() {
    grep -o "\"$1\":[0-9.]*" "$dir/out" | tail -n "${2:-1}" | head -n 1 | cut -d: -f2
}

snapshots() {
    q snapshots --json | grep -c '"message_type":"snapshot"' || true
}

# stored_bytes [POOL]: bytes of all containers.
stored_bytes() {
    find "${1:-$pool}/containers" -type f -printf '%s\n' 2>/dev/null | awk '{ sum += $1 } END { print sum + 0 }'
}

# same SOURCE TARGET: every byte, mode, owner, time, link, ACL and attribute.
same() {
    requires rsync
    rsync "$(rsync_flags)" --delete --checksum --itemize-changes "$1/" "$2/" >"$dir/rsync" 2>&1 || fail "$(cat "$dir/rsync")"
    [ ! -s "$dir/rsync" ] || fail "differs: $(head -n 20 "$dir/rsync")"
}

# sound: every byte of the pool is what it should be.
sound() {
    exits 0 q check --read-data
}

# noise FILE MEGABYTES: bytes that neither compress nor repeat.
noise() {
    head -c $(($2 << 20)) /dev/urandom >"$1"
}

# start_server ARGUMENT...: `quintet serve` as $server; its output is in $dir/serve.
start_server() {
    # What the one before said is not what this one says.
    rm -f "$dir/serve"
    "$QUINTET" serve "$@" >"$dir/serve" 2>&1 &
    server=$!
    wait_until is_serving
}

is_serving() {
    grep -qE '^serving' "$dir/serve" || ! kill -0 "$server"
}

# stop_server: SIGTERM, and how it must end.
stop_server() {
    local code=0
    kill -TERM "$server"
    wait "$server" || code=$?
    server=
    [ "$code" -eq 0 ] || fail "the server exited with $code: $(cat "$dir/serve")"
    [ ! -e "$pool/control" ] || fail "the server left its socket behind"
}

# kill_server: as a crash of it would.
kill_server() {
    kill -9 "$server"
    wait "$server" 2>/dev/null || true
    server=
}

# background NAME COMMAND...: its output is in $dir/NAME, its process is $!.
background() {
    local name=$1
    shift
    # Here, and not when the process comes to it: who looks must not find what an earlier one has written.
    : >"$dir/$name"
    "$@" >"$dir/$name" 2>&1 </dev/null &
}

# wait_until COMMAND...: up to a minute: nobody else's business makes this machine slower than that.
wait_until() {
    local deadline=$((EPOCHSECONDS + 60))
    until "$@" 2>/dev/null; do
        [ $EPOCHSECONDS -lt $deadline ] || fail "waited a minute in vain for: $*"
        sleep 0.05
    done
}

# For wait_until; all are true too when the process has ended, as what it would do does not come any more.
# has_ended PROCESS
has_ended() {
    # One that nobody waited for yet is a zombie.
    case $(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) in '' | Z) ;; *) return 1 ;; esac
}
# has_moved read|written PROCESS BYTES: by system calls, whatever they reached: pipes and sockets too.
has_moved() {
    local name=rchar
    [ "$1" = read ] || name=wchar
    has_ended "$2" || [ "$(sed -n "s/^$name: //p" "/proc/$2/io")" -ge "$3" ]
}
# catches_interrupts PROCESS: SIGINT does not just kill it.
catches_interrupts() {
    has_ended "$1" || [ $((0x$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status") & 2)) -ne 0 ]
}
