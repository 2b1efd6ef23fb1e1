#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hostile web server on the loopback, for fetch_http.sh.

  fetch_server.py DIR [CERTIFICATE KEY]

Writes DIR/truth (the file it serves), DIR/small, DIR/changed and DIR/ports ("http other [https]"),
then one line a request to DIR/log. The first word of a path says how it misbehaves; /MODE/anything,
and what happened before to the same path counts. /ORG/REPO/resolve/REV/PATH is a hub.
"""
import hashlib
import http.server
import os
import select
import socket
import ssl
import sys
import threading
import time

SIZE = 200_000


def stream(seed, n):
    out = b""
    i = 0
    while len(out) < n:
        out += hashlib.sha256(b"%s %d" % (seed, i)).digest()
        i += 1
    return out[:n]


TRUTH = stream(b"truth", SIZE)
CHANGED = stream(b"changed", SIZE)
SMALL = b"a small file, no LFS\n"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
COMMIT2 = "89abcdef0123456789abcdef0123456789abcdef"
DIR = sys.argv[1]
seen = {}
lock = threading.Lock()
ports = {}


def etag_of(body):
    return '"%s"' % hashlib.sha256(body).hexdigest()


def git_sha1(body):
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "hostile"

    def log_message(self, *args):
        pass

    def note(self, count):
        auth = self.headers.get("Authorization")
        with lock, open(DIR + "/log", "a") as f:
            f.write("%s %s n=%d range=%s if-range=%s encoding=%s auth=%s port=%d\n" % (
                self.command, self.path, count, self.headers.get("Range", "-"),
                self.headers.get("If-Range", "-"), self.headers.get("Accept-Encoding", "-"),
                auth if auth else "-", self.server.server_port))

    def start(self, status, length, **headers):
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()

    def words(self, status, **headers):
        body = b"<html>these words are not the file</html>\n"
        self.start(status, len(body), **headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def hang_up(self):
        self.close_connection = True
        self.wfile.flush()
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def whole(self, body, etag, cut=None, pace=None, held=False, ranges=True, if_range=True,
              length=True):
        """200, or 206 when a range is asked for; `cut` bytes at most, then the line is dead."""
        at = 0
        asked = self.headers.get("Range")
        if ranges and asked and asked.startswith("bytes=") and asked.endswith("-"):
            if not if_range or self.headers.get("If-Range", etag) == etag:
                at = int(asked[6:-1])
        if at >= len(body) > 0:
            self.words(416, Content_Range="bytes */%d" % len(body))
            return
        part = body[at:]
        headers = {"ETag": etag, "Last_Modified": "Sun, 29 Nov 2026 00:00:00 GMT"}
        if at:
            headers["Content_Range"] = "bytes %d-%d/%d" % (at, len(body) - 1, len(body))
        if not length:
            headers["Connection"] = "close"
        self.start(206 if at else 200, len(part) if length else None, **headers)
        if self.command == "HEAD":
            return
        if pace:
            for i in range(0, len(part), pace[0]):
                self.wfile.write(part[i:i + pace[0]])
                self.wfile.flush()
                time.sleep(pace[1])
            return
        if held:
            self.wfile.write(part[:len(part) // 2])
            self.wfile.flush()
            while not os.path.exists(DIR + "/go"):
                if select.select([self.connection], [], [], 0.05)[0]:
                    self.close_connection = True
                    return
            part = part[len(part) // 2:]
        self.wfile.write(part if cut is None else part[:cut])
        if cut is not None or not length:
            self.hang_up()

    def hub(self, parts):
        repo, rev, path = "/".join(parts[:2]), parts[3], "/".join(parts[4:])
        if repo == "org/gated" and self.headers.get("Authorization") != "Bearer " + TOKEN:
            self.words(403)
            return
        if repo == "old/repo":
            self.start(307, 0, Location="/org/repo/resolve/%s/%s" % (rev, path))
            return
        known = {"main": COMMIT, "refs%2Fpr%2F1": COMMIT, COMMIT: COMMIT, "moved": COMMIT,
                 "f" * 40: COMMIT}  # a hub that answers another commit than asked for
        if os.path.exists(DIR + "/moved"):
            known["moved"] = COMMIT2
        if rev not in known:
            self.words(404)
            return
        head = {"X_Repo_Commit": known[rev]}
        if path.endswith("small.json"):
            body = SMALL if path != "bad/small.json" else b"b" + SMALL[1:]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"%s"' % git_sha1(SMALL))
            self.send_header("X-Repo-Commit", known[rev])
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
            return
        if path == "none.bin":
            self.words(200, X_Repo_Commit=known[rev])
            return
        body = CHANGED if known[rev] == COMMIT2 else TRUTH
        self.start(302, 0, X_Linked_Etag=etag_of(body), X_Linked_Size=str(len(body)),
                   ETag='"of-the-redirect"',
                   Location="http://127.0.0.1:%d/store/%s?X-Amz-Signature=verysecret" % (
                       ports["other"], "changed" if body is CHANGED else "truth"), **head)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.split("?")[0]
        parts = path.strip("/").split("/")
        with lock:
            n = seen[path] = seen.get(path, 0) + (self.command == "GET")
        self.note(n)
        try:
            if len(parts) > 4 and parts[2] == "resolve":
                self.hub(parts)
            else:
                self.misbehave(parts[0], n, path)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def misbehave(self, mode, n, path):
        tag = '"v1"'
        ranged = self.headers.get("Range") is not None
        if mode in ("ok", "store"):
            self.whole(CHANGED if path.endswith("changed") else TRUTH, tag)
        elif mode == "cut":  # every answer ends after 50,000 bytes
            self.whole(TRUTH, tag, cut=50_000)
        elif mode == "drop":  # ... after none
            self.whole(TRUTH, tag, cut=0)
        elif mode == "norange":
            self.whole(TRUTH, tag, cut=70_000 if n == 1 else None, ranges=False)
        elif mode == "badstart" and ranged:
            self.start(206, 10, ETag=tag, Content_Range="bytes 5-14/%d" % SIZE)
            self.wfile.write(TRUTH[5:15])
        elif mode == "badtotal" and ranged:
            self.start(206, 10, ETag=tag, Content_Range="bytes 70000-70009/123456")
            self.wfile.write(TRUTH[70000:70010])
        elif mode == "nototal" and ranged:
            self.start(206, 10, ETag=tag, Content_Range="garbage")
            self.wfile.write(TRUTH[70000:70010])
        elif mode == "liar206" and ranged:  # another file under If-Range
            self.whole(CHANGED, '"v2"', if_range=False)
        elif mode == "416" and ranged:
            self.words(416)
        elif mode in ("badstart", "badtotal", "nototal", "liar206", "416"):
            self.whole(TRUTH, tag, cut=70_000 if n == 1 else None)
        elif mode == "changed":  # the file is replaced after the first request
            self.whole(TRUTH if n == 1 else CHANGED, '"v%d"' % n,
                       cut=70_000 if n == 1 else None)
        elif mode == "weak":
            self.whole(TRUTH, 'W/"v1"', cut=70_000 if n == 1 else None)
        elif mode == "429":
            if n == 1:
                self.words(429, Retry_After="2")
            else:
                self.whole(TRUTH, tag)
        elif mode == "503":
            if n <= 2:
                self.words(503)
            else:
                self.whole(TRUTH, tag)
        elif mode == "wrong":
            self.whole(CHANGED, tag)
        elif mode == "wrongonce":
            self.whole(CHANGED if n == 1 else TRUTH, tag)
        elif mode == "longer":
            self.whole(TRUTH + b"more", tag, length=False)
        elif mode == "shorter":
            self.whole(TRUTH[:-7], tag)
        elif mode == "nolength":
            self.whole(TRUTH, tag, length=False)
        elif mode == "empty":
            self.whole(b"", tag)
        elif mode == "slow":
            self.whole(TRUTH, tag, pace=(20, 0.2) if n == 1 else None)
        elif mode == "held":  # the first answer stops half way until DIR/go is there or nobody listens
            self.whole(TRUTH, tag, held=n == 1)
        elif mode == "steady":
            self.whole(TRUTH, tag, pace=(20_000, 0.1))
        elif mode == "huge":
            self.start(200, 10 ** 15, ETag=tag)
            self.wfile.write(TRUTH[:1000])
            self.hang_up()
        elif mode == "loop":
            self.start(302, 0, Location="/loop/%d" % n)
        elif mode == "hop":
            self.start(302, 0, Location="/ok/hop")
        elif mode == "away":
            self.start(302, 0, Location="http://127.0.0.1:%d/ok/away" % ports["other"])
        elif mode == "outside":
            self.start(302, 0, Location="http://192.0.2.1/file")
        elif mode == "outside2":
            self.start(302, 0, Location="//192.0.2.1/file")
        elif mode == "ftp":
            self.start(302, 0, Location="ftp://127.0.0.1/file")
        elif mode == "file":
            self.start(302, 0, Location="file:///etc/passwd")
        elif mode == "downgrade":
            self.start(302, 0, Location="http://127.0.0.1:%d/ok/plain" % ports["http"])
        elif mode == "garbage":
            self.connection.sendall(b"\0\1\2 this is no HTTP\r\n\r\n")
            self.hang_up()
        elif mode.startswith("endless"):  # a status whose words never end
            self.start(int(mode[7:]), None, Location="/ok/endless")
            while True:
                self.wfile.write(b"these words are not the file " * 1000)
        elif mode.isdigit():
            self.words(int(mode))
        else:
            self.words(404)


TOKEN = os.environ.get("SERVER_TOKEN", "")
for name, data in (("truth", TRUTH), ("small", SMALL), ("changed", CHANGED)):
    with open(DIR + "/" + name, "wb") as out:
        out.write(data)
http.server.ThreadingHTTPServer.request_queue_size = 128  # all that a script asks at once
servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
ports["http"], ports["other"] = (s.server_port for s in servers)
if len(sys.argv) > 3:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(sys.argv[2], sys.argv[3])
    servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
    servers[2].socket = tls.wrap_socket(servers[2].socket, server_side=True)
for s in servers:
    s.daemon_threads = True
    s.handle_error = lambda *args: None  # clients hang up, that is the point
    threading.Thread(target=s.serve_forever, daemon=True).start()
with open(DIR + "/ports.tmp", "w") as out:
    out.write(" ".join(str(s.server_port) for s in servers) + "\n")
os.rename(DIR + "/ports.tmp", DIR + "/ports")
sys.stdin.read()  # until the script that started it ends
