#!/usr/bin/env bash
# With -q every command that succeeds prints nothing, on neither stream, but for those whose output is what was asked
# for; what goes wrong is printed as ever. Alone, and beside a server.
. "$(dirname "$0")/common.sh"
other_pool
mkdir -p "$dir/src"
noise "$dir/src/noise" 3
noise "$dir/image" 2
echo other >"$dir/new-password"
chmod 600 "$dir/new-password"

tested=
# quiet NAME ARGUMENT...: prints nothing. NAME is the command of the table.
quiet() {
    tested="$tested $1"
    exits 0 q -q "$@"
    [ ! -s "$dir/out" ] && [ ! -s "$dir/err" ] || fail "-q $*: $(cat "$dir/out" "$dir/err")"
}
# asked NAME ARGUMENT...: prints what it is asked for, and nothing else to standard error.
asked() {
    tested="$tested $1"
    exits 0 q -q "$@"
    [ -s "$dir/out" ] && [ ! -s "$dir/err" ] || fail "-q $*: $(cat "$dir/out" "$dir/err")"
}

export QUINTET_CONFIG=$dir/quintet.toml
cat >"$QUINTET_CONFIG" <<END
[pool]
path = "$pool"
[sources.src]
paths = ["$dir/src"]
[notify]
command = ["true"]
END

quiet init "${init_options[@]}"
new_other_pool -q
[ ! -s "$dir/out" ] || fail "$(cat "$dir/out")"
all_of_them() {
    quiet backup "$dir/src"
    asked backup "$dir/src" --dry-run
    quiet import "$dir/image" "disk$1"
    "$QUINTET" -q backup --stdin --stdin-filename "stream$1" <"$dir/image" >"$dir/out" 2>&1
    [ ! -s "$dir/out" ] || fail "backup --stdin: $(cat "$dir/out")"
    quiet tag latest --add kept
    asked rewrite latest --exclude noise --dry-run
    quiet rewrite latest --host rewritten
    quiet rewrite latest --host again --forget
    asked snapshots
    asked ls latest
    asked find noise
    asked dump latest "$dir/src/noise"
    quiet export -f raw "disk$1" "$dir/exported$1"
    quiet restore latest --target "$dir/restored$1"
    asked restore latest --target "$dir/restored-dry" --dry-run --overwrite always
    quiet volume create "web$1" --size 4M
    asked volume list
    asked volume info "web$1"
    quiet volume rename "web$1" "named$1"
    quiet volume rename "named$1" "web$1"
    quiet export "web$1" "$dir/volume$1"
    quiet import "$dir/image" "disk$1" --skip-if-unchanged
    quiet backup "$dir/src" --skip-if-unchanged
    quiet volume snapshot "web$1@one"
    quiet volume clone "web$1@one" "copy$1"
    quiet volume resize "copy$1" 8M
    quiet volume rollback "web$1@one"
    asked volume delete "copy$1" --dry-run
    quiet volume delete "copy$1"
    asked copy --all --dry-run
    quiet copy --all
    quiet copy --all
    asked parity show
    asked policy show
    quiet parity set 3
    asked upgrade --dry-run
    quiet upgrade
    quiet check
    quiet check --read-data
    asked repair --dry-run --replica "$other"
    quiet repair
    quiet repair --replica "$other"
    asked stats
    quiet backup "$dir/src"
    asked forget --keep-last 1 --dry-run
    quiet forget --keep-last 1
    asked undelete
    quiet undelete "$(q undelete --json | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p' | head -n 1)"
    asked gc --dry-run
    quiet gc
    quiet gc --trash-period 0
    asked scrub status
    asked setup --remove --dry-run
    asked config check
    asked notify --test
    quiet run src
}
all_of_them 1
exits 0 q backup "$dir/src"
asked diff "$(q snapshots --json | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p' | head -n 1)" latest
quiet scrub
asked status
quiet defrag web1
asked defrag web1 --dry-run
asked defrag status
# With what may be missing here (events), it falls back and says so in its table.
asked host cached "$dir/src"
asked host doctor "$dir/src"
mkdir "$dir/fast"
start_server --fast "$dir/fast" --fast-size 64M
all_of_them 2
quiet qos set scrub-within=9d
quiet policy set vm-images
quiet policy set auto
asked policy status
asked qos show
asked top --count 1
quiet scrub start
quiet scrub pause
stop_server
"$QUINTET" -q serve >"$dir/out" 2>&1 &
server=$!
wait_until test -S "$pool/control"
stop_server
[ ! -s "$dir/out" ] || fail "serve: $(cat "$dir/out")"
tested="$tested serve"
if [ -e /dev/fuse ] && mkdir "$mount" && mounted+=("$mount"); then
    "$QUINTET" -q mount "$mount" --read-only >"$dir/out" 2>&1 &
    server=$!
    wait_until test -d "$mount/snapshots"
    unshow
    [ ! -s "$dir/out" ] || fail "mount: $(cat "$dir/out")"
fi
tested="$tested mount"

# What goes wrong is said.
find "$pool/containers" -type f -size +1M | sort | head -n 1 | xargs rm
exits 21 q -q check
says 'DAMAGE FOUND'
exits 21 q -q repair
says 'STILL DAMAGED'
exits 1 q -q tag nothing --add kept
says nothing

# What only encrypted pools have.
sealed
pool=$dir/sealed
export QUINTET_REPOSITORY=$pool
quiet init --recovery-key-file "$dir/recovery"
exits 0 q -q init -r "$dir/third" --password-file "$dir/new-password"
[ ! -s "$dir/out" ] && [ ! -s "$dir/err" ] || fail "$(cat "$dir/out" "$dir/err")"
keys() {
    quiet backup "$dir/src"
    asked key list
    quiet key add --new-password-file "$dir/new-password" --label "second$1"
    quiet key recovery "$dir/recovery$1" --label "third$1"
}
keys 1
start_server
keys 2
stop_server
quiet gc --set-trash-minimum 1h --key-file "$dir/recovery"

asked generate bash

# The table has all commands.
q --help | sed -n '/^Store:/,/^Options/s/^  \([a-z][a-z]*\) .*/\1/p' >"$dir/commands"
[ "$(wc -l <"$dir/commands")" -gt 20 ] || fail "no list of commands"
while read -r name; do
    case " $tested " in *" $name "* | *" help "*) ;; *) [ "$name" = help ] || fail "$name is not in the table" ;; esac
done <"$dir/commands"
