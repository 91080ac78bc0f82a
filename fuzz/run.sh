#!/usr/bin/env bash
# Runs the fuzz targets one after the other. Needs a nightly toolchain and cargo-fuzz.
#
#   fuzz/run.sh                     every target, 60 s each
#   fuzz/run.sh 600                 every target, 600 s each
#   fuzz/run.sh 600 pool tree       these targets
#
# Starts from fuzz/seeds, keeps what it learns in fuzz/corpus, leaves what fails in fuzz/artifacts.
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=${1:-60}
shift || true
cargo +nightly fuzz --version || exit 1
targets=${*:-$(cargo +nightly fuzz list)}
failed=()
for target in $targets; do
    mkdir -p "fuzz/corpus/$target" "fuzz/seeds/$target"
    echo "== $target, $seconds s"
    log=fuzz/corpus/$target.log
    cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 \
        -malloc_limit_mb=512 -print_final_stats=1 >"$log" 2>&1 || failed+=("$target")
    grep -E 'panicked|==ERROR|SUMMARY|Test unit written|number_of_executed_units|peak_rss_mb|^error' "$log"
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}"
    exit 1
fi
echo "all held"
