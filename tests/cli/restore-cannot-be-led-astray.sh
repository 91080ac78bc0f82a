#!/usr/bin/env bash
# Another user swaps directories of the target with symbolic links to a victim while root restores over it with --delete:
# nothing outside the target is removed, written or changed.
# seconds: 600
. "$(dirname "$0")/common.sh"
requires python3 setpriv
requires_root
id nobody >/dev/null 2>&1 || skip "there is no user nobody"
as_nobody=(setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups)
python=
for candidate in /usr/bin/python3 "$(command -v python3)"; do
    if [ -z "$python" ] && "${as_nobody[@]}" "$candidate" -c '' 2>/dev/null; then python=$candidate; fi
done
[ -n "$python" ] || skip "nobody cannot run python3"
chmod 711 "$dir"
victim=$dir/victim target=$dir/target
mkdir -p "$dir"/src/work/s{1..60} "$victim"/s{1..60}/extra/deep
for n in $(seq 60); do
    echo new >"$dir/src/work/s$n/file"
    echo victim | tee "$victim/s$n/file" "$victim/s$n/extra/1" >"$victim/s$n/extra/deep/1"
done
mkfifo "$dir/src/work/pipe" && ln -s nowhere "$dir/src/work/link"
chown -R nobody "$dir/src/work" && chmod 700 "$victim"
before=$(cd "$victim" && find . -printf '%p %y %U %m %T@ %s\n' | sort | sha256sum)
names=$(find "$victim" | wc -l)
new_pool
exits 0 q backup "$dir/src"
mkdir "$target" && cp -a "$dir/src/work" "$target/work" && chown nobody "$target"
cat >"$dir/swap.py" <<'PY'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
top, victim, count = sys.argv[1], sys.argv[2], sys.argv[3]
work, link = os.path.join(top, "work"), os.path.join(top, ".link")
swaps = 0
while os.path.isdir(top) and not os.path.exists(count + ".stop"):
    if not os.path.islink(work) and not os.path.islink(link):
        try:
            if os.path.lexists(link):
                os.rename(link, os.path.join(top, ".old%d" % swaps))
            os.symlink(victim, link)
        except OSError:
            pass
    if libc.renameat2(-100, work.encode(), -100, link.encode(), 2) == 0:
        swaps += 1
open(count, "w").write(str(swaps))
PY
touch "$dir/swaps" && chown nobody "$dir/swaps"
chmod 644 "$dir/swap.py"
background attack "${as_nobody[@]}" "$python" "$dir/swap.py" "$target" "$victim" "$dir/swaps"
attacker=$!
for round in $(seq "${ROUNDS:-20}"); do
    # Something to be removed, wherever the directory stands just now; by him who may not touch the victim.
    for n in "$target/work" "$target/.link"; do
        "${as_nobody[@]}" bash -c 'mkdir -p "$0"/s{1..60}/extra/deep && touch "$0"/s{1..60}/extra/1' "$n" 2>/dev/null || true
    done
    code=0
    q restore "latest:$dir/src" --target "$target" --delete --overwrite always >"$dir/out" 2>"$dir/err" </dev/null || code=$?
    case $code in 0 | 3) ;; *) fail "restore ended with $code: $(cat "$dir/err")" ;; esac
    after=$(cd "$victim" && find . -printf '%p %y %U %m %T@ %s\n' | sort | sha256sum)
    [ "$before" = "$after" ] || { kill "$attacker"; fail "round $round: the victim was changed: $(find "$victim" | wc -l) of $names names left"; }
done
touch "$dir/swaps.stop"
wait "$attacker" || fail "the attack ended early: $(cat "$dir/attack")"
[ "$(cat "$dir/swaps")" -gt 1000 ] || fail "only $(cat "$dir/swaps") swaps: nothing was tested"
echo "$(cat "$dir/swaps") swaps"
