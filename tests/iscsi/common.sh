# Sourced by the behaviour scripts: a scratch directory, a server on a free port, and what they need.
# The server is $QUINTET_ISCSI_SERVER, a command that serves a disk over iSCSI. It is called as
#   $QUINTET_ISCSI_SERVER [--read-only] [--pattern] --size SIZE ADDRESS
# prints "ready Some(ADDRESS)" and runs until it is killed: the example iscsi_memory of the crate iscsi.
#
# A script runs beside others, also beside itself: all that it makes is below $dir, where it also runs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../scratch.sh"
dir=$(scratch iscsi)
server=
client=
finish() {
    # What a script that failed half-way has not ended.
    [ -z "$client" ] || pkill -P "$client" || true
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
    qemu-img info iscsi://127.0.0.1:1/x/0 2>&1 | grep -qi 'unknown\|not find\|not found' &&
        { echo "qemu-block-extra is not installed"; exit 77; }
    return 0
}

# serve [--read-only] [--pattern] [--size SIZE] ...: sets portal and uri.
serve() {
    # Emptied here: the one before said that it was ready, too.
    : >"$dir/server.log"
    # The command may have arguments of its own.
    $QUINTET_ISCSI_SERVER "$@" 127.0.0.1:0 >"$dir/server.log" 2>&1 &
    server=$!
    wait_until accepts
    kill -0 "$server" 2>/dev/null || fail "the server ended: $(cat "$dir/server.log")"
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
    wait_until has_answered
    answer=$(tail -1 "$dir/server.log")
    case $answer in refused*) fail "$*: $answer" ;; esac
    echo "$answer"
}

accepts() {
    grep -q ^ready "$dir/server.log" || ! kill -0 "$server" 2>/dev/null
}

has_answered() {
    [ "$(wc -l <"$dir/server.log")" -gt "$before" ]
}

# wait_until COMMAND...: up to a minute: nobody else's business makes this machine slower than that.
wait_until() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "waited a minute in vain for: $*: $(cat "$dir/server.log")"
        sleep 0.05
    done
}

# conforms TEST ARGUMENTS...: of iscsi-test-cu, scored: tests that were skipped are listed with their reasons. $excuse is why
# those of ProutReserve.Access may fail.
excuse=
conforms() {
    test=$1
    shift
    # A run that is cut off has not passed.
    trap '' PIPE
    status=0
    timeout --foreground 600 iscsi-test-cu -v -V -t "$test" "$@" >"$dir/log" 2>&1 || status=$?
    [ $status -ne 124 ] || fail "$test: not done after ten minutes: $(tail -n 5 "$dir/log")"
    python3 "$here/score.py" "$dir/log" 'ProutReserve.Access.*' "$excuse" >"$dir/score" || fail "$test: $(cat "$dir/score")"
    cat "$dir/score"
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
