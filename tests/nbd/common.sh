# Sourced by the behaviour scripts: a scratch directory, a server in it, and what they need.
set -eu
dir=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$dir"
}
trap finish EXIT
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

# serve [--read-only] [--pattern] --size SIZE
serve() {
    # The command may have arguments of its own.
    $QUINTET_NBD_SERVER "$@" "$socket" >"$dir/server.log" 2>&1 &
    server=$!
    tries=0
    until [ -S "$socket" ] && nbd_ready; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { echo "server did not start"; cat "$dir/server.log"; exit 1; }
        sleep 0.1
    done
}

# True once the server accepts; before that a client would find no one.
nbd_ready() {
    kill -0 "$server"
}

fail() {
    echo "$*"
    exit 1
}
