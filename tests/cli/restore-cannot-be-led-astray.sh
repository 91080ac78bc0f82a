#!/usr/bin/env bash
# Another user swaps directories of the target with symbolic links to a victim while root restores over it with --delete:
# nothing outside the target is removed, written or changed.
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
mkdir -p "$dir/src/work/a/b" "$victim/a/b" "$victim"/extra{1..40}/deep
for n in $(seq 30); do echo new >"$dir/src/work/a/file$n"; done
echo new >"$dir/src/work/a/b/below" && mkfifo "$dir/src/work/pipe" && ln -s nowhere "$dir/src/work/link"
for n in $(seq 50); do echo victim | tee "$victim/extra1/$n" "$victim/extra2/deep/$n" "$victim/a/extra$n" >"$victim/a/file$n"; done
chown -R nobody "$dir/src/work" && chmod 700 "$victim"
before=$(cd "$victim" && find . -printf '%p %y %U %m %T@ %s\n' | sort | sha256sum)
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
for round in $(seq "${ROUNDS:-25}"); do
    # Something to be removed, wherever the directory stands just now.
    for n in "$target"/work "$target"/.link; do
        [ -L "$n" ] || { mkdir -p "$n"/extra{1..40}/deep && touch "$n"/extra{1,2}/{1,2,3}; } 2>/dev/null || true
    done
    code=0
    q restore "latest:$dir/src" --target "$target" --delete --overwrite always >"$dir/out" 2>"$dir/err" </dev/null || code=$?
    case $code in 0 | 3) ;; *) fail "restore ended with $code: $(cat "$dir/err")" ;; esac
    after=$(cd "$victim" && find . -printf '%p %y %U %m %T@ %s\n' | sort | sha256sum)
    [ "$before" = "$after" ] || fail "round $round: the victim was changed: $(find "$victim" | wc -l) names left"
done
touch "$dir/swaps.stop"
wait "$attacker" || fail "the attack ended early: $(cat "$dir/attack")"
[ "$(cat "$dir/swaps")" -gt 1000 ] || fail "only $(cat "$dir/swaps") swaps: nothing was tested"
echo "$(cat "$dir/swaps") swaps"
