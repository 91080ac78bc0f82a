#!/usr/bin/env bash
# 0 done, 1 failed, 3 partly, 10 no pool, 12 wrong key; messages say what to do.
# Sealed: a wrong password has a code of its own.
. "$(dirname "$0")/common.sh"
sealed
mkdir "$dir/src" && echo x >"$dir/src/x"
exits 10 q snapshots
exits 10 q backup "$dir/src"
new_pool
exits 1 q init
exits 0 q snapshots
QUINTET_PASSWORD=wrong exits 12 q snapshots
QUINTET_PASSWORD=wrong exits 12 q backup "$dir/src"
exits 1 q backup "$dir/does-not-exist"
exits 0 q backup "$dir/src"
exits 1 q restore 00000000 --target "$dir/nowhere"
exits 1 q restore "latest:/no/such/path" --target "$dir/nowhere"
exits 1 q export no-such-image "$dir/nowhere"
mkdir "$dir/not-a-pool" && exits 10 q -r "$dir/not-a-pool" snapshots
exits 10 q -r "$dir/not-there" snapshots
says "Is its disk mounted?"
# Places on other machines are not local directories of that name, which are still within reach.
for remote in host:/srv/pool user@host:pool ssh://host/pool smb://nas/share nfs://nas/share sftp:host:/x s3:bucket \
    rest:http://host/; do
    exits 1 q -r "$remote" init
    says "a pool is a directory of this machine"
    [ ! -e "${remote%%/*}" ] || fail "$remote was created"
done
exits 10 q -r ./host:/srv/pool snapshots
QUINTET_COMPRESSION=fast exits 1 q backup "$dir/src"
says QUINTET_COMPRESSION
QUINTET_PROGRESS_FPS=-1 exits 1 q backup "$dir/src"
says QUINTET_PROGRESS_FPS
QUINTET_REPOSITORY= exits 1 q snapshots
# The last line of the JSON of a failure says the code, on standard error.
exits 10 q --json -r "$dir/not-a-pool" snapshots
grep -q '"message_type":"exit_error"' "$dir/err" || fail "no exit_error: $(cat "$dir/err")"
grep -q '"code":10' "$dir/err" || fail "no code: $(cat "$dir/err")"
