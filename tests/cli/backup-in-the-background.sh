#!/usr/bin/env bash
# backup --background waits for a disk that others use, and goes on when they have ended, or slowly beside them.
. "$(dirname "$0")/common.sh"
. "$here/loop.sh"
requires_loop
requires python3
can_make ext4 || skip "there is no ext4 here"
truncate -s 200M "$dir/disk"
# Nothing that the kernel does later.
mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$dir/disk" || fail "mkfs.ext4"
attach on "$dir/disk"
mkdir "$dir/inner/src"
for n in 1 2 3 4 5 6 7 8; do noise "$dir/inner/src/$n" 2; done
noise "$dir/inner/busy" 8
cold() {
    detach
    attach on "$dir/disk"
}
new_pool
waited() { sed -n 's/.*waited \([0-9]*\)\.[0-9]* s for an idle disk.*/\1/p' "$dir/err"; }

cold
exits 0 q backup -v --background "$dir/inner/src"
says 'for an idle disk'
[ "$(waited)" -lt 2 ] || fail "waited $(waited) s for a disk that nobody else uses"

cold
# Several at once, so that a request is always under way, also where this machine has little time for them.
cat >"$dir/reader.py" <<'P'
import mmap, os, sys, threading
file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
def read():
    buffer = mmap.mmap(-1, 1 << 20)
    while True:
        for at in range(0, 8 << 20, 1 << 20):
            os.preadv(file, [buffer], at)
for _ in range(4):
    threading.Thread(target=read).start()
print("reads", flush=True)
P
background reader python3 "$dir/reader.py" "$dir/inner/busy"
reader=$!
wait_until grep -q reads "$dir/reader"
exits 0 q backup -v --background --force "$dir/inner/src"
kill $reader
wait $reader 2>/dev/null || true
# 16 MiB, of which 4 MiB may be read each second.
[ "$(waited)" -ge 3 ] || fail "waited only $(waited) s beside a reader"
exits 0 q restore "latest:$dir/inner/src" --target "$dir/back"
same "$dir/inner/src" "$dir/back"
# A stream has no disk to wait for.
exits 1 q backup --background --stdin
