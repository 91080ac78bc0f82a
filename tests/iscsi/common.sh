# Sourced by the behaviour scripts: a scratch directory, a server on a free port, and what they need.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
server=
finish() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        # It may write until it ends.
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$dir"
}
trap finish EXIT
target=iqn.2026-11.org.quintet:disk

# Skips the script, aloud, unless the tools are there.
requires() {
    for tool; do
        command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 77; }
    done
}

# Skips the script, aloud, unless qemu's tools can speak iSCSI.
requires_qemu_iscsi() {
    requires qemu-img qemu-io
    qemu-img --help | grep -q '\biscsi\b' || { echo "this qemu cannot speak iSCSI"; exit 77; }
    qemu-img info iscsi://127.0.0.1:1/x/0 2>&1 | grep -qi 'unknown\|not find' &&
        { echo "qemu-block-extra is not installed"; exit 77; }
    return 0
}

# serve [--read-only] [--pattern] [--size SIZE] ...: sets portal and uri.
serve() {
    # The command may have arguments of its own.
    $QUINTET_ISCSI_SERVER "$@" 127.0.0.1:0 >"$dir/server.log" 2>&1 &
    server=$!
    tries=0
    until grep -q ^ready "$dir/server.log"; do
        tries=$((tries + 1))
        if [ $tries -ge 600 ] || ! kill -0 "$server"; then
            echo "server did not start"
            cat "$dir/server.log"
            exit 1
        fi
        sleep 0.1
    done
    portal=$(sed -n 's/^ready Some(\(.*\))$/\1/p' "$dir/server.log")
    uri=iscsi://$portal/$target/0
}

# The same, with targets that can be changed by control.
serve_controlled() {
    mkfifo "$dir/control"
    # Open for reading too, so that opening does not wait.
    exec 3<>"$dir/control"
    printf '#!/bin/sh\nexec %s --control "$@" <"%s"\n' "$QUINTET_ISCSI_SERVER" "$dir/control" \
        >"$dir/controlled"
    chmod +x "$dir/controlled"
    QUINTET_ISCSI_SERVER=$dir/controlled
    serve "$@"
}

# control COMMAND...: changes targets, waits until that is done, and prints the answer.
control() {
    before=$(wc -l <"$dir/server.log")
    echo "$*" >&3
    tries=0
    until [ "$(wc -l <"$dir/server.log")" -gt "$before" ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "no answer to $*"
        sleep 0.05
    done
    answer=$(tail -1 "$dir/server.log")
    case $answer in refused*) fail "$*: $answer" ;; esac
    echo "$answer"
}

# initiator ARGUMENTS <SCRIPT: runs a script with the raw initiator of initiator.py.
initiator() {
    requires python3
    PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 PORTAL=$portal TARGET=$target SERVER=$server python3 - "$@"
}

fail() {
    echo "$*"
    exit 1
}
