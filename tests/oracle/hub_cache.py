#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""kvaudit's hub cache against the hub's own client: each reads what the other fetched.

  python3 -m venv V && V/bin/pip install huggingface_hub
  V/bin/python tests/oracle/hub_cache.py build/kvaudit > tests/oracle/hub_cache.txt

Both talk to tests/cli/fetch_server.py on the loopback; run from the source root.
"""
import os
import subprocess
import sys
import tempfile
import time

kvaudit = os.path.abspath(sys.argv[1])
top = tempfile.mkdtemp()
server = subprocess.Popen([sys.executable, "tests/cli/fetch_server.py", top], stdin=subprocess.PIPE)
while not os.path.exists(top + "/ports"):
    time.sleep(0.05)
os.environ.update(HF_ENDPOINT="http://127.0.0.1:" + open(top + "/ports").read().split()[0], HOME=top,
                  HF_HOME=top + "/hf", KVAUDIT_CACHE=top + "/kva", no_proxy="*", HF_HUB_DISABLE_XET="1",
                  HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_TELEMETRY="1")
for name in ("HF_HUB_CACHE", "HF_TOKEN", "XDG_CACHE_HOME"):
    os.environ.pop(name, None)
import huggingface_hub as hub  # noqa: E402, reads the environment when imported

ours, theirs = top + "/ours", top + "/theirs"
commit = "0123456789abcdef0123456789abcdef01234567"
files = ("sub/dir/model.bin", "small.json")


def fetch(cache, path, *more):
    return subprocess.run([kvaudit, "fetch", "hf:org/repo/" + path, "--allow-unpinned", *more],
                          env=dict(os.environ, HF_HUB_CACHE=cache), capture_output=True, text=True)


def tree(cache):
    """Every blob, link and ref; locks and other bookkeeping differ."""
    out = []
    for at, _, names in sorted(os.walk(cache + "/models--org--repo")):
        for name in sorted(names):
            p = os.path.join(at, name)
            rel = os.path.relpath(p, cache)
            if "/blobs/" in rel or "/snapshots/" in rel or "/refs/" in rel:
                out.append(rel + (" -> " + os.readlink(p) if os.path.islink(p) else
                                  " %d bytes" % os.path.getsize(p)))
    return out


print("huggingface_hub", hub.__version__)
for path in files:
    r = fetch(ours, path)
    print("kvaudit fetches %s: exit %d, %s" % (path, r.returncode, r.stdout.split()[1]))
for path in files:
    found = hub.try_to_load_from_cache("org/repo", path, cache_dir=ours)
    print("the client finds it:", os.path.relpath(found, ours) if found else found)
    got = hub.hf_hub_download("org/repo", path, cache_dir=ours, local_files_only=True)
    print("and reads it offline:", os.path.getsize(got), "bytes")
info = hub.scan_cache_dir(ours)
print("the client's scan: %d repository, %d bytes, %d warnings" % (
    len(info.repos), info.size_on_disk, len(info.warnings)))
for path in files:
    hub.hf_hub_download("org/repo", path, cache_dir=theirs)
    r = fetch(theirs, path, "--offline")
    print("kvaudit offline on the client's %s: exit %d, %s" % (path, r.returncode, r.stdout.split()[1]))
print("the same tree:", tree(ours) == tree(theirs))
print("\n".join(tree(ours)))
server.stdin.close()
server.wait()
