#!/usr/bin/env bash
# tests/layout/run.sh: not of this host, but it needs the same tools. The short form has every file system, with a shorter
# workload and one comparison during it, block by block as in the long form.
# seconds: 600
exec bash "$(dirname "$0")/../layout/run.sh" "$@"
