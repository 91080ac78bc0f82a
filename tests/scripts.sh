# Sourced by the runners of tests/cli, tests/fuse and tests/guest: runs behaviour scripts and counts.
#
# Each script exits 0 (passed), 77 (skipped: this machine cannot do it) or anything else (failed).

# run_scripts DIRECTORY PREFIX SECONDS NAME...: the scripts whose names begin with PREFIX, each for at
# most so long, without those that are called NAME. False when one failed.
run_scripts() {
    local directory=$1 prefix=$2 seconds=$3
    shift 3
    local passed=0 failed=0 skipped=0 script name output status started took
    for script in "$directory/$prefix"*.sh; do
        name=$(basename "$script" .sh)
        case " run common $* " in *" $name "*) continue ;; esac
        started=$SECONDS
        output=$(timeout "$seconds" bash "$script" 2>&1 </dev/null)
        status=$?
        took=$((SECONDS - started))
        case $status in
        0) passed=$((passed + 1)); echo "ok      $name ($took s)" ;;
        77) skipped=$((skipped + 1)); echo "SKIPPED $name: $output" ;;
        *) failed=$((failed + 1)); echo "FAILED  $name ($status, $took s)"; echo "$output" | sed 's/^/        /' ;;
        esac
    done
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
