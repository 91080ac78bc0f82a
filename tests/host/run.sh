#!/usr/bin/env bash
# What `quintet host` sees of this machine's page cache, and moving extents. Says SKIPPED for each part that cannot be
# done here.
#
# QUINTET, PAGE_CHECKS, MIGRATIONS_PROGRAM, POWER_CUTS, LAYOUT, FUSE_SERVER: the program, and the examples page_checks,
# migrations, power_cuts (linux_host), layout (io_class) and fuse_memory (fuse). Default: the release builds.
set -u
cd "$(dirname "$0")/../.." || exit 1
target=${CARGO_TARGET_DIR:-target}
export QUINTET=${QUINTET:-$target/release/quintet}
export PAGE_CHECKS=${PAGE_CHECKS:-$target/release/examples/page_checks}
export MIGRATIONS_PROGRAM=${MIGRATIONS_PROGRAM:-$target/release/examples/migrations}
export POWER_CUTS=${POWER_CUTS:-$target/release/examples/power_cuts}
export LAYOUT=${LAYOUT:-$target/release/examples/layout}
export FUSE_SERVER=${FUSE_SERVER:-$target/release/examples/fuse_memory}
failed=0
for script in object commands units page-checks tracing migrations power-cuts defrag-task scrub; do
    echo "-- $script"
    timeout 600 bash "tests/host/$script.sh" || { failed=1; echo "FAILED $script"; }
done
# Not of this host, but it needs the same tools: the layout of file systems inside volumes.
echo "-- layout"
OPERATIONS=400 CHECKS=1 timeout 600 bash tests/layout/run.sh || { failed=1; echo "FAILED layout"; }
exit $failed
