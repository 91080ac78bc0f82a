#!/usr/bin/env bash
# `config check` lists the jobs and when they run. It names each mistake with its line, the key and the remedy, and what
# would keep a job from running. Nothing of a wrong file is run.
# Sealed: whether the pool needs a password is one of the checks.
. "$(dirname "$0")/common.sh"
sealed
new_pool
mkdir "$dir/src" && echo x >"$dir/src/x"
export QUINTET_CONFIG=$dir/quintet.toml
exits 1 q config check
says "cannot read the configuration file $dir/quintet.toml; write one"
(umask 077 && echo 'correct horse' >"$dir/password")
cat >"$QUINTET_CONFIG" <<END
[pool]
path = "$pool"
password-file = "$dir/password"
[sources.tree]
paths = ["$dir/src"]
when = "02:30"
[sources.words]
command = ["echo", "words"]
when = "every 15m"
[retention]
keep-daily = 7
when = "daily"
[check]
when = "sun 04:00"
END
exits 0 q config check
[ ! -s "$dir/err" ] || fail "$(cat "$dir/err")"
says "^tree *02:30 *back up $dir/src"
says '^words *every 15m *store the output of `echo words` as words'
says "^forget *daily *forget, then gc: keep-daily 7"
says "^check *sun 04:00"
says "^watch *by hand"
exits 0 q --json config check
says '"message_type":"job","name":"check","when":"sun 04:00","period_seconds":604800,"timer":\["OnCalendar=Sun \*-\*-\* 04:00:00"\]'
says '"message_type":"summary","jobs":5,"errors":0,"warnings":0'
# The option is preferred to the variable. A mistake has the line of its key, all are said at once, and nothing runs.
sed 's/every 15m/sometimes/; s/keep-daily = 7/keep-dayly = 7/' "$QUINTET_CONFIG" >"$dir/wrong.toml"
for command in "config check" run "run tree" "notify --test"; do
    # shellcheck disable=SC2086
    exits 1 q $command --config "$dir/wrong.toml"
    says "^$dir/wrong.toml:9: sources.words.when: \"sometimes\" is not a schedule; write "
    says "^$dir/wrong.toml:11: retention.keep-dayly: unknown key; did you mean keep-daily?"
    says "wrong.toml has 2 mistakes; correct the file"
done
[ "$(snapshots)" -eq 0 ] || fail "a wrong file was run"
exits 1 q --json config check --config "$dir/wrong.toml"
says '"message_type":"error","file":".*wrong.toml","line":9,"key":"sources.words.when"'
# What is missing on this machine: errors, and warnings for what may be there when the job runs.
sed "s|$dir/src\"|$dir/nowhere\"|; s|\"echo\"|\"no-such-program\"|" "$QUINTET_CONFIG" >"$dir/missing.toml"
exits 1 q config check --config "$dir/missing.toml"
says "missing.toml:5: sources.tree.paths: $dir/nowhere does not exist"
says "missing.toml:8: sources.words.command: there is no program no-such-program"
says "missing.toml: 2 errors"
sed "s|$dir/src\"|$dir/src\", \"$dir/nowhere\"|" "$QUINTET_CONFIG" >"$dir/some.toml"
exits 0 q config check --config "$dir/some.toml"
says "some.toml:5: sources.tree.paths: warning: $dir/nowhere does not exist"
chmod 644 "$dir/password"
exits 0 q config check
says "quintet.toml:3: pool.password-file: warning: other users can read the secret"
rm "$dir/password"
exits 1 q config check
says "quintet.toml:3: pool.password-file: cannot read $dir/password: no such file or directory"
grep -v password-file "$QUINTET_CONFIG" >"$dir/asks.toml"
exits 0 q config check --config "$dir/asks.toml"
says "asks.toml:2: pool.path: warning: the pool is encrypted, and a timer cannot be asked; set password-file"
sed "s|^path = .*|path = \"$dir/src\"|" "$dir/asks.toml" >"$dir/nopool.toml"
exits 1 q config check --config "$dir/nopool.toml"
says "nopool.toml:2: pool.path: there is no pool in $dir/src"
sed 's|^path = .*|&\nmemory = "1K"|' "$dir/asks.toml" >"$dir/memory.toml"
exits 1 q config check --config "$dir/memory.toml"
says "memory.toml:2: pool: --memory: 1.00 KiB is too little; give at least"
# Who can change the file can run programs as this user.
chmod o+w "$dir/asks.toml"
exits 1 q run --config "$dir/asks.toml"
says "every user can change $dir/asks.toml"
