#!/usr/bin/env bash
# The systemd units for this machine's files are valid, and their commands work as another user with exactly the
# capabilities that the units give. Says SKIPPED for each part that cannot be done here.
#   QUINTET=.../quintet MIGRATIONS_PROGRAM=.../migrations tests/host/units.sh
. "$(dirname "$0")/filesystems.sh"
migrations=$MIGRATIONS_PROGRAM
units=$(cd "$here/../../systemd" && pwd) || exit 1
in_memory
mkdir "$dir/units"
chmod 755 "$dir"
cp "$quintet" "$dir/quintet"

for unit in quintet-backup quintet-defrag quintet-host-scrub; do
    if ! command -v systemd-analyze >/dev/null; then skip "$unit: no systemd-analyze"; continue; fi
    sed "s,/usr/local/bin/quintet,$dir/quintet,;s,%d,/run,;s,^Documentation=.*,," "$units/$unit.service" >"$dir/units/$unit.service"
    cp "$units/$unit.timer" "$dir/units"
    systemd-analyze verify --man=no "$dir/units/$unit.service" "$dir/units/$unit.timer" >"$dir/out" 2>&1 || wrong "$unit: $(cat "$dir/out")"
    grep -i 'unknown\|failed to parse\|invalid' "$dir/out" && wrong "$unit is not valid"
    systemd-analyze security --offline=true --threshold=45 --no-pager "$dir/units/$unit.service" >"$dir/out" 2>&1 || wrong "$unit: too exposed: $(tail -n 1 "$dir/out")"
done

# One user and one pool: a user sends nothing to a server of another one.
for unit in quintet quintet-backup quintet-host-scrub; do
    grep -qx 'User=quintet' "$units/$unit.service" || wrong "$unit: another user"
    grep -q '^Environment=QUINTET_REPOSITORY=/srv/pool\( \|$\)' "$units/$unit.service" || wrong "$unit: another pool"
done

# with UNIT COMMAND...: as a user with the capabilities of the unit, and no others to get.
with() {
    local capabilities
    # Only those that root has here.
    capabilities=$(sed -n 's/^AmbientCapabilities=//p' "$units/$1.service" | tr 'A-Z' 'a-z' | sed 's/cap_//g' | tr ' ' '\n' |
        grep -xF "$(setpriv --dump | sed -n 's/^Capability bounding set: //p' | tr ',' '\n')" | sed 's/^/+/' | paste -sd,)
    shift
    setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --bounding-set "-all,$capabilities" \
        --inh-caps "-all,$capabilities" --ambient-caps "-all,$capabilities" "$@"
}
if [ "$(id -u)" -ne 0 ] || ! with quintet-backup true 2>/dev/null; then
    skip "units: not root, or setpriv cannot give capabilities here"
    exit $failed
fi
for fs in ext4 xfs btrfs; do
    fresh "$fs" || continue
    mkdir -m 700 "$mnt/theirs"
    "$migrations" fragment "$mnt/file" 2 && mv "$mnt/file" "$mnt/theirs/file" || { wrong "$fs: no fragmented file"; continue; }
    chmod 600 "$mnt/theirs/file"
    sync -f "$mnt"
    before=$(cksum <"$mnt/theirs/file")
    if setpriv --reuid 65534 --regid 65534 --clear-groups "$dir/quintet" host defrag run "$mnt" --json >"$dir/json" 2>"$dir/errors"; then
        wrong "$fs: no error without capabilities: $(cat "$dir/json")"
    fi
    cat "$dir/json" "$dir/errors" | grep "$mnt/theirs" | grep -q 'permission denied' || wrong "$fs: without capabilities: $(cat "$dir/json" "$dir/errors")"
    cat "$dir/json" "$dir/errors" | grep -q 'run as root, or with CAP_DAC_OVERRIDE and CAP_FOWNER' || wrong "$fs: no remedy: $(cat "$dir/errors")"
    with quintet-defrag "$dir/quintet" host defrag run "$mnt" --json >"$dir/json" 2>"$dir/errors" || wrong "$fs: defrag run: exit code $?: $(cat "$dir/errors")"
    grep -q '"moved_bytes":2097152' "$dir/json" || wrong "$fs: not moved: $(cat "$dir/json" "$dir/errors")"
    [ "$before" = "$(cksum <"$mnt/theirs/file")" ] || wrong "$fs: other bytes"
    rm -rf "$dir/pool"
    mkdir -m 700 "$dir/pool"
    chown 65534:65534 "$dir/pool"
    export QUINTET_REPOSITORY=$dir/pool/pool HOME=$dir/pool
    with quintet-backup "$dir/quintet" init --no-encryption >/dev/null 2>&1 || { wrong "$fs: no pool"; continue; }
    with quintet-backup "$dir/quintet" backup --background --order=cached "$mnt" --json >"$dir/json" 2>"$dir/errors" ||
        wrong "$fs: backup: exit code $?: $(cat "$dir/errors")"
    # It said nothing of files whose pages it may not ask for.
    [ ! -s "$dir/errors" ] || wrong "$fs: backup: $(cat "$dir/errors")"
    grep -q '"bytes_found_in_memory":2[0-9]\{6\}' "$dir/json" || wrong "$fs: backup did not see what is in memory: $(tail -n 1 "$dir/json")"
    sync -f "$mnt"
    chmod -R a-w "$dir/pool/pool"
    with quintet-host-scrub "$dir/quintet" host scrub --background "$mnt" --json >"$dir/json" 2>"$dir/errors" ||
        wrong "$fs: host scrub: exit code $?: $(cat "$dir/errors" "$dir/json")"
    chmod -R u+w "$dir/pool/pool"
    grep -q '"files_same":1,"files_changed":0,.*"files_failed":0,"bytes_read":2097152' "$dir/json" || wrong "$fs: host scrub: $(tail -n 1 "$dir/json")"
    # It sees page events where root does.
    reason=$("$dir/quintet" host events "$mnt" --count 1 --json | grep -c fallback_reason)
    [ "$(grep -c fallback_reason "$dir/json")" = "$reason" ] || wrong "$fs: host scrub sees no page events: $(cat "$dir/json")"
    umount "$mnt"
done
# A server as the unit runs it, and the timer's backup beside it: that reaches the server.
rm -rf "$dir/pool"
mkdir -m 700 "$dir/pool"
chown 65534:65534 "$dir/pool"
mkdir -p "$dir/source/theirs" && echo x >"$dir/source/theirs/x" && chmod 700 "$dir/source/theirs"
export QUINTET_REPOSITORY=$dir/pool/pool HOME=$dir/pool
with quintet "$dir/quintet" init --no-encryption >/dev/null 2>"$dir/errors" || wrong "no pool: $(cat "$dir/errors")"
with quintet "$dir/quintet" serve --nbd-socket "$dir/pool/nbd" >"$dir/serve" 2>&1 &
server=$!
wait_until grep -q '^serving' "$dir/serve"
with quintet-backup "$dir/quintet" backup --background "$dir/source" >"$dir/json" 2>"$dir/errors" || wrong "backup beside a server: $(cat "$dir/errors")"
kill "$(pgrep -P "$server")"
wait "$server" || wrong "the server ended with $?: $(cat "$dir/serve")"
exit $failed
