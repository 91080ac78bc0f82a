#!/bin/sh
# Runs every behaviour script of this directory against an NBD server with real clients.
#
# QUINTET_NBD_SERVER: command that serves a disk of SIZE bytes on a unix socket; it is called as
#   $QUINTET_NBD_SERVER [--read-only] [--pattern] --size SIZE SOCKET
# and runs until it is killed. Default: the example nbd_memory of the crate nbd, built here.
# QUINTET_OWN_CLIENTS_ONLY=1: do not run everything again with the newer clients of newer-clients.sh.
# Each script exits 0 (passed), 77 (skipped: a client tool is missing) or anything else (failed).
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${QUINTET_NBD_SERVER:-}" ]; then
    (cd "$here/../.." && cargo build -q --release -p nbd --example nbd_memory) || exit 1
    QUINTET_NBD_SERVER="${CARGO_TARGET_DIR:-$here/../../target}/release/examples/nbd_memory"
fi
export QUINTET_NBD_SERVER
here_names() {
    for script in "$here"/${1:-}*.sh; do
        case $(basename "$script" .sh) in run | common | measure | newer-clients) continue ;; esac
        echo "$script"
    done
}

passed=0 failed=0 skipped=0
# run_all LABEL [PREFIX]
run_all() {
    for script in $(here_names "${2:-}"); do
        name="$(basename "$script" .sh)$1"
        output=$(timeout 120 sh "$script" 2>&1)
        case $? in
        0) passed=$((passed + 1)); echo "ok      $name" ;;
        77) skipped=$((skipped + 1)); echo "SKIPPED $name: $output" ;;
        *) failed=$((failed + 1)); echo "FAILED  $name"; echo "$output" | sed 's/^/        /' ;;
        esac
    done
}
run_all "" "${1:-}"
# The same with newer clients, which ask for extended headers.
if [ -z "${QUINTET_OWN_CLIENTS_ONLY:-}" ]; then
    if newer=$("$here/newer-clients.sh"); then
        PATH=$newer:$PATH
        export PATH
        run_all " (newer clients)" "${1:-}"
    else
        echo "SKIPPED all with newer clients: $newer"
    fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
