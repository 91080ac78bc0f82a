#!/usr/bin/env bash
# A failed job, damage, and success for healthchecks reach the program and the URL of [notify], over HTTP and HTTPS. What
# cannot be delivered is a warning and code 1, and never hides the job's own code.
. "$(dirname "$0")/common.sh"
requires python3 openssl
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
new_pool
mkdir "$dir/src" && noise "$dir/src/x" 1
# A server that writes down what it is sent: a line with the path and the headers that count, then the body.
cat >"$dir/receiver.py" <<'END'
import http.server, socketserver, ssl, sys
place, certificate = sys.argv[1], sys.argv[2:]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        with open(place + ".log", "a") as log:
            log.write(f"{self.path} {self.headers.get('Title', '-')} {self.headers.get('Priority', '-')} {body}\n")
        status = {"/refuse": 500, "/moved": 302}.get(self.path, 200)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "ftp://elsewhere/secret")
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *arguments):
        pass
# HTTPServer would look up the name of the address.
server = socketserver.TCPServer(("127.0.0.1", 0), Handler)
if certificate:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
with open(place + ".port", "w") as port:
    port.write(str(server.server_address[1]) + "\n")
server.serve_forever()
END
background python python3 "$dir/receiver.py" "$dir/plain"
has_port() { [ -s "$dir/$1.port" ] || has_ended $!; }
wait_until has_port plain
url=http://127.0.0.1:$(cat "$dir/plain.port")
cat >"$dir/alert" <<END
#!/bin/sh
{ echo "\$QUINTET_EVENT|\$QUINTET_JOB|\$QUINTET_MESSAGE"; cat; } >>"$dir/alert.log"
END
chmod +x "$dir/alert"
export QUINTET_CONFIG=$dir/quintet.toml
# configure LINE...: the keys of [notify].
configure() {
    rm -f "$dir/alert.log" "$dir/plain.log"
    cat >"$QUINTET_CONFIG" <<END
[pool]
path = "$pool"
[sources.tree]
paths = ["$dir/src"]
[sources.bad]
command = ["sh", "-c", "echo no route to db >&2; exit 4"]
[check]
parts = 1
END
    [ $# -eq 0 ] || printf '%s\n' "[notify]" "$@" >>"$QUINTET_CONFIG"
}
log() {
    cat "$dir/$1.log" 2>/dev/null || true
}
none() {
    [ -z "$(log alert)$(log plain)" ] || fail "notified: $(log alert) $(log plain)"
}
configure "command = [\"$dir/alert\"]" "url = \"$url/hook\""
exits 0 q run tree
none
exits 1 q run tree bad
log alert | matches "^failure|bad|bad: failed.* (exit code 1): nothing was stored: sh failed (exit status: 4): no route to db" ||
    fail "the program heard: $(log alert)"
log alert | matches '^{"message_type":"notification","event":"failure","job":"bad","host":".*","pool":".*","time":".*","code":1,' ||
    fail "the program read: $(log alert)"
[ "$(log alert | grep -c '^failure')" -eq 1 ] || fail "$(log alert)"
log plain | matches '^/hook - - {"message_type":"notification","event":"failure","job":"bad"' || fail "the URL got: $(log plain)"
# Each failure is told. In JSON the words are the same.
exits 1 q --json run bad
[ "$(log alert | grep -c '^failure|bad|bad: .*no route to db')" -eq 2 ] || fail "$(log alert)"
# Only the events that the file names.
configure "url = \"$url/hook\"" 'on = ["damage"]'
exits 1 q run bad
none
# ntfy: the text, with a title.
configure "url = \"$url/topic\"" 'format = "ntfy"'
exits 1 q run bad
log plain | matches "^/topic quintet on .*: failure (bad) 4 bad: failed" || fail "ntfy got: $(log plain)"
# healthchecks: a ping when all is well, /fail otherwise, one a run.
configure "url = \"$url/uuid\"" 'format = "healthchecks"'
exits 0 q run tree check
[ "$(log plain | cut -d' ' -f1)" = /uuid ] || fail "healthchecks got: $(log plain)"
exits 1 q run tree bad
[ "$(log plain | tail -n +2 | cut -d' ' -f1)" = /uuid/fail ] || fail "healthchecks got: $(log plain)"
# A test says what answered.
configure "command = [\"$dir/alert\"]" "url = \"$url/hook\""
exits 0 q notify --test
says "^$dir/alert: delivered: exit status 0"
says "^$url: delivered: answered 200 OK"
log alert | matches "^test|notify|" || fail "$(log alert)"
configure
exits 1 q notify --test
says "has no section \[notify\]"
# What is not delivered: 1 if the job itself succeeded, else the job's code. The secret part of a URL is in no message.
configure 'command = ["sh", "-c", "echo broken >&2; exit 3"]' "url = \"$url/refuse\""
exits 1 q notify --test
says "^sh: not delivered: sh failed (exit status: 3): broken"
says "^$url: not delivered: answered 500"
! grep -q "/refuse" "$dir/out" "$dir/err" || fail "the URL is shown"
configure "url = \"$url/moved\""
exits 1 q notify --test
says "not delivered: answered 302 Found, a redirect to ftp://elsewhere; give that URL"
configure 'url = "http://127.0.0.1:1/x"' 'format = "healthchecks"'
exits 1 q run tree
says "warning: cannot notify http://127.0.0.1:1 of the success of tree: connection refused"
[ "$(snapshots)" -ge 4 ] || fail "the job was not done: $(snapshots)"
# HTTPS: only with a certificate that this machine trusts.
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/key.pem" -out "$dir/cert.pem" -days 2 -subj /CN=here \
    -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE >"$dir/openssl" 2>&1 ||
    fail "$(cat "$dir/openssl")"
background python-tls python3 "$dir/receiver.py" "$dir/tls" "$dir/cert.pem" "$dir/key.pem"
wait_until has_port tls
configure "url = \"https://127.0.0.1:$(cat "$dir/tls.port")/hook\""
SSL_CERT_FILE=$dir/cert.pem exits 0 q notify --test
log tls | matches '^/hook .*"event":"test"' || fail "$(log tls)"
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/key2.pem" -out "$dir/cert2.pem" -days 2 -subj /CN=other \
    >"$dir/openssl" 2>&1 || fail "$(cat "$dir/openssl")"
SSL_CERT_FILE=$dir/cert2.pem exits 1 q notify --test
says "not delivered: .*certificate"
[ "$(log tls | wc -l)" -eq 1 ] || fail "a stranger was trusted"
# Damage has its own event, and its own code although it cannot be delivered.
container=$(find "$pool/containers" -type f -size +500k | head -n 1)
printf 'xxxxxxxxxxxxxxxx' | dd of="$container" bs=1 seek=300000 conv=notrunc status=none
configure "command = [\"$dir/alert\"]" "url = \"$url/refuse\""
exits 21 q run check
log alert | matches "^damage|check|check: " || fail "$(log alert)"
says "warning: cannot notify $url of the damage of check: answered 500"
