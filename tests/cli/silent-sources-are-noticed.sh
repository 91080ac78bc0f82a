#!/usr/bin/env bash
# `run watch` reports a source that was never backed up or not for too long, damage, and a full disk; the same once a day.
. "$(dirname "$0")/common.sh"
mount_tmpfs "$dir/small" 64M
pool=$dir/small/pool
export QUINTET_REPOSITORY=$pool
new_pool
mkdir "$dir/src" && echo x >"$dir/src/x"
cat >"$dir/alert" <<END
#!/bin/sh
echo "\$QUINTET_EVENT|\$QUINTET_JOB|\$QUINTET_MESSAGE" >>"$dir/alert.log"
END
chmod +x "$dir/alert"
export QUINTET_CONFIG=$dir/quintet.toml
cat >"$QUINTET_CONFIG" <<END
[pool]
path = "$pool"
[sources.tree]
paths = ["$dir/src/"]
when = "every 15m"
[sources.words]
command = ["echo", "words"]
when = "weekly"
silent-after = "2h"
[sources.byhand]
command = ["echo", "words"]
[notify]
command = ["$dir/alert"]
END
# heard EXPECTED: what was notified of since the last time, the texts left out.
heard() {
    local found
    touch "$dir/alert.log"
    found=$(cut -d'|' -f1,2 "$dir/alert.log" | sort | tr '\n' ' ')
    rm -f "$dir/alert.log"
    [ "$found" = "$1" ] || fail "heard \"$found\", expected \"$1\": $(cat "$dir/out" "$dir/err")"
}
ago() { date -u -d "$1 ago" +%Y-%m-%dT%H:%M:%SZ; }
exits 3 q run watch
says "^tree: never backed up; run quintet run tree"
says "^words: never backed up"
! grep -q byhand "$dir/out" || fail "a source without a schedule is not silent"
heard "silence|tree silence|words "
# Once a day; the code stays.
exits 3 q run watch
says "^tree: never backed up"
heard ""
exits 0 q run tree words
exits 0 q run watch
[ ! -s "$dir/out" ] || fail "$(cat "$dir/out")"
heard ""
# Too old: the default is twice the period, silent-after says otherwise. Silence that comes again is told at once.
q forget "$(q snapshots --json | grep -o '"short_id":"[0-9a-f]*"' | head -n 1 | cut -d'"' -f4)" >/dev/null 2>&1
q forget latest >/dev/null 2>&1
exits 0 q backup "$dir/src" --time "$(ago '40 minutes')"
exits 0 q backup --stdin-filename words --time "$(ago '100 minutes')" --stdin-from-command -- echo words
exits 3 q run watch
says "^tree: no backup since .*, and one is due within 30m"
heard "silence|tree "
exits 0 q backup --host elsewhere "$dir/src"
exits 3 q run watch
heard ""
exits 0 q backup "$dir/src"
exits 0 q run watch
# A day later, while it lasts.
exits 0 q forget latest
exits 3 q run watch
heard "silence|tree "
sed -i 's/^[0-9]* silence/1000 silence/' "$QUINTET_CACHE_DIR"/watch/*
exits 3 q run watch
heard "silence|tree "
# What was not delivered is told by the next run.
sed -i 's/^[0-9]* silence/1000 silence/' "$QUINTET_CACHE_DIR"/watch/*
chmod -x "$dir/alert"
exits 3 q run watch
says "warning: cannot notify $dir/alert of the silence of tree: cannot run it: permission denied"
chmod +x "$dir/alert"
exits 3 q run watch
heard "silence|tree "
exits 0 q run tree
exits 0 q run watch
# A full disk, and a watch beside a server.
start_server
head -c 60M /dev/zero >"$dir/small/fill" 2>/dev/null || true
exits 3 q run watch
says "the pool's disk is nearly full"
heard "space|watch "
rm "$dir/small/fill"
exits 0 q run watch
stop_server
# A pool that cannot be opened is told each time.
mv "$pool" "$dir/small/away"
exits 10 q run watch
heard "failure|watch "
exits 10 q run watch
heard "failure|watch "
