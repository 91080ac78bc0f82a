#!/usr/bin/env bash
# A restore counts every file that is missing, also below directories that could not be made; it stops on a full target
# and says how much is needed; it refuses patterns and paths that match nothing, with the nearest names; without hard
# links it makes copies, and says so.
. "$(dirname "$0")/common.sh"
mkdir -p "$dir/src/a/b/c" "$dir/src/big" "$dir/src/z"
for n in $(seq 20); do echo "$n" >"$dir/src/a/b/c/$n"; done
echo x >"$dir/src/a/b/x"
for n in $(seq 40); do noise "$dir/src/big/$n" 1; done
echo z >"$dir/src/z/z"
ln "$dir/src/z/z" "$dir/src/z/again"
new_pool
exits 0 q backup "$dir/src"
source=latest:$dir/src

# A file stands where a directory belongs.
mkdir -p "$dir/t/a" && echo mine >"$dir/t/a/b"
exits 3 q restore "$source" --target "$dir/t" --overwrite never --exclude /big --json
[ "$(number files_failed)" -eq 22 ] || fail "$(number files_failed) failed, expected the directory and 21 files"
[ "$(number total_files)" -eq 23 ] || fail "$(number total_files) meant"
exits 3 q restore "$source" --target "$dir/t" --overwrite never --exclude /big
says "22 NOT restored"
# What a verification cannot open does not differ.
exits 3 q restore "$source" --target "$dir/t" --overwrite never --exclude /big --verify
says "could not be verified"
! grep -q "differ from the snapshot" "$dir/out" || fail "$(cat "$dir/out")"
exits 3 q restore "$source" --target "$dir/t" --overwrite never --exclude /big --verify --json
[ "$(number files_different) $(number files_unverified)" = "0 1" ] || fail "$(tail -n 1 "$dir/out")"

# Nothing matches.
exits 1 q restore latest --target "$dir/none" --include "$dir/src/a/b/xx"
says "nothing in the snapshot matches --include $dir/src/a/b/xx; the nearest: $dir/src/a/b/x"
[ ! -e "$dir/none" ] || fail "a target was left behind"
exits 1 q restore "$source" --target "$dir/none" --include "$dir/src/a/b/xx"
says "patterns begin below $dir/src"
exits 1 q restore "latest:$dir/srcs/a" --target "$dir/none"
says "there is no $dir/srcs in the snapshot; the nearest: $dir/src"

# No hard links: the kernel refuses them.
if python3 -c '' 2>/dev/null && case $(uname -m) in x86_64 | aarch64) ;; *) false ;; esac; then
    cat >"$dir/linkless.py" <<'PY'
import ctypes, os, platform, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
linkat = {"x86_64": 265, "aarch64": 37}[platform.machine()]
code = [(0x20, 0, 0, 0), (0x15, 0, 1, linkat), (0x06, 0, 0, 0x00050000 | 1), (0x06, 0, 0, 0x7FFF0000)]
filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filters))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
    sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
PY
    code=0
    python3 "$dir/linkless.py" "$(command -v "$QUINTET")" restore "$source" --target "$dir/copies" --include /z \
        >"$dir/out" 2>"$dir/err" </dev/null || code=$?
    if [ $code -ne 77 ]; then
        [ $code -eq 3 ] || fail "exit $code: $(cat "$dir/err")"
        says "the target has no hard links: 1 hard link became a copy"
        cmp "$dir/copies/z/z" "$dir/copies/z/again" || fail "no copy"
        [ "$(stat -c %h "$dir/copies/z/z")" -eq 1 ] || fail "a link after all"
    fi
fi

# A full target.
mount_tmpfs "$dir/small" 12M
exits 3 q restore "$source" --target "$dir/small" --json
[ "$(number files_failed)" -ge 28 ] || fail "$(number files_failed) failed"
[ $(($(number files_failed) + $(number files_restored))) -eq 63 ] || fail "not all are counted: $(tail -n 1 "$dir/out")"
[ "$(grep -c '"message_type":"error"' "$dir/out")" -le 25 ] || fail "it went on and on"
says '"target_full":true'
rm -rf "$dir"/small/*
exits 3 q restore "$source" --target "$dir/small"
says "stopped, because the target is full: .* are missing with .* are free"
