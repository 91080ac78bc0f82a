# Sourced by the behaviour scripts: a scratch directory, a server in it, and what they need.
# The server is $QUINTET_NBD_SERVER, a command that serves a disk of SIZE bytes on a unix socket. It is called as
#   $QUINTET_NBD_SERVER [--read-only] [--pattern] --size SIZE SOCKET
# and runs until it is killed; it says "ready" or "serving" when it accepts.
#
# A script runs beside others, also beside itself: all that it makes is below $dir, where it also runs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../scratch.sh"
dir=$(scratch nbd)
server=
client=
finish() {
    # What a script that failed half-way has not ended.
    [ -z "$client" ] || kill "$client" 2>/dev/null || true
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        # It may write until it ends.
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
cd "$dir"
socket=$dir/socket
uri="nbd+unix:///?socket=$socket"

# Skips the script, aloud, unless the tools are there.
requires() {
    for tool; do
        command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 77; }
    done
}

# Skips the script, aloud, unless Python can speak NBD. The first python3 of the path may be one
# without the system's modules.
requires_nbdsh() {
    for python in python3 /usr/bin/python3; do
        if "$python" -c 'import nbd, nbdsh' 2>/dev/null; then
            return
        fi
    done
    echo "Python's nbd module is not installed"
    exit 77
}

nbdsh() {
    "$python" -m nbd "$@"
}

# Skips the script, aloud, unless this libnbd can ask for extended headers.
requires_extended_headers() {
    requires_nbdsh
    nbdsh -c 'h.get_extended_headers_negotiated' 2>/dev/null ||
        { echo "this libnbd does not know extended headers"; exit 77; }
}

# serve [--read-only] [--pattern] --size SIZE
serve() {
    # Emptied here: the one before said that it was ready, too.
    : >"$dir/server.log"
    # The command may have arguments of its own.
    $QUINTET_NBD_SERVER "$@" "$socket" >"$dir/server.log" 2>&1 &
    server=$!
    accepts
}

# Waits until the server accepts; before that a client would find no one.
accepts() {
    tries=0
    until grep -q '^ready\|^serving' "$dir/server.log"; do
        kill -0 "$server" 2>/dev/null || fail "the server ended: $(cat "$dir/server.log")"
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "the server did not start within a minute: $(cat "$dir/server.log")"
        sleep 0.05
    done
}

# The same, with exports that can be changed by control; only the example server can do that.
serve_controlled() {
    example_server "control input"
    mkfifo "$dir/control"
    # Open for reading too, so that opening does not wait.
    exec 3<>"$dir/control"
    printf '#!/bin/sh\nexec %s --control "$@" <"%s"\n' "$QUINTET_NBD_SERVER" "$dir/control" \
        >"$dir/controlled"
    chmod +x "$dir/controlled"
    QUINTET_NBD_SERVER=$dir/controlled
    serve "$@"
}

# Skips the script, aloud, unless the server is the example, which has what is named.
example_server() {
    case $QUINTET_NBD_SERVER in
    *nbd_memory*) ;;
    *) echo "this server has no $1"; exit 77 ;;
    esac
}

# control COMMAND...: changes what is exported and waits until it is done.
control() {
    before=$(wc -l <"$dir/server.log")
    echo "$*" >&3
    tries=0
    until [ "$(wc -l <"$dir/server.log")" -gt "$before" ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "no answer within a minute to $*"
        sleep 0.05
    done
    answer=$(tail -1 "$dir/server.log")
    case $answer in refused*) fail "$*: $answer" ;; esac
}

# In the background: nbdsh runs script, which calls step NAME to wait for next.
nbdsh_steps() {
    mkfifo "$dir/next"
    {
        echo 'import sys'
        echo 'def step(name):'
        echo '    print(name, flush=True)'
        echo '    sys.stdin.readline()'
        cat "$1"
    } >"$dir/steps.py"
    # No function: the process of one in the background is a shell.
    "$python" -m nbd -c "$(cat "$dir/steps.py")" <"$dir/next" >"$dir/steps.log" 2>&1 &
    client=$!
    exec 4>"$dir/next"
}

# reached STEP: waits until the script in the background is there.
reached() {
    tries=0
    until grep -qx "$1" "$dir/steps.log"; do
        kill -0 "$client" 2>/dev/null || fail "$(cat "$dir/steps.log")"
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "the client did not reach $1 within a minute: $(cat "$dir/steps.log")"
        sleep 0.05
    done
}

next() {
    echo >&4
}

# Waits for the end of the script in the background.
ended() {
    wait "$client" || fail "$(cat "$dir/steps.log")"
    client=
}

fail() {
    echo "$*"
    exit 1
}
