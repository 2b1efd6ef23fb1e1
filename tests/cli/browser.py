# SPDX-License-Identifier: GPL-3.0-or-later
"""browser.py - a headless Chromium driven over its debugging pipe (DevTools protocol, JSON messages
that end in a zero byte on file descriptors 3 and 4). Standard library only.

    with Browser() as b:
        page = b.open("file:///tmp/index.html", width=390, dark=True, script=False)
        page.eval("document.title")
        page.errors        # exceptions, console errors, violations of the content security policy
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class BrowserError(Exception):
    pass


def program():
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    return None


def _high(fd):
    """The descriptor moved out of the way of 3 and 4."""
    new = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(fd)
    return new


class Page:
    def __init__(self, browser, session, target):
        self.browser, self.session, self.target = browser, session, target
        self.errors = []

    def call(self, method, **params):
        return self.browser.call(method, params, self.session)

    def eval(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression[:80]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def screenshot(self, path, height=None):
        if height:
            self.call("Emulation.setDeviceMetricsOverride", width=self.width, height=height,
                      deviceScaleFactor=1, mobile=False)
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.browser.call("Target.closeTarget", {"targetId": self.target})


class Browser:
    def __init__(self, timeout=300):
        self.timeout = timeout
        self.profile = tempfile.mkdtemp(prefix="kvaudit-browser-")
        to_child, self.out = (_high(fd) for fd in os.pipe())
        self.inp, from_child = (_high(fd) for fd in os.pipe())
        self.last, self.rest, self.pages = 0, b"", {}
        self.log = tempfile.TemporaryFile()

        def wire():
            os.dup2(to_child, 3)
            os.dup2(from_child, 4)

        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--hide-scrollbars", "--no-first-run", "--no-default-browser-check", "--disable-extensions",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=wire, pass_fds=(3, 4),
            start_new_session=True)
        os.close(to_child)
        os.close(from_child)

    def __enter__(self):
        try:
            self.version = self.call("Browser.getVersion")["product"]
        except BrowserError:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            self.call("Browser.close", wait=False)
            self.process.wait(10)
        except (BrowserError, subprocess.TimeoutExpired, OSError):
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-400:].replace("\n", " ")

    def _message(self, deadline):
        while b"\0" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.inp], [], [], left)[0]:
                raise BrowserError("the browser does not answer: " + self.said())
            bytes_ = os.read(self.inp, 1 << 16)
            if not bytes_:
                raise BrowserError("the browser ended: " + self.said())
            self.rest += bytes_
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def _event(self, m):
        page = self.pages.get(m.get("sessionId"))
        if not page:
            return
        p = m["params"]
        if m["method"] == "Page.loadEventFired":
            page.loaded = True
        elif m["method"] == "Runtime.exceptionThrown":
            page.errors.append(p["exceptionDetails"].get("text", "exception"))
        elif m["method"] == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            page.errors.append(p["entry"]["text"])
        elif m["method"] == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning"):
            page.errors.append(str(p["args"]))

    def call(self, method, params=None, session=None, wait=True):
        self.last += 1
        m = {"id": self.last, "method": method, "params": params or {}}
        if session:
            m["sessionId"] = session
        try:
            os.write(self.out, json.dumps(m).encode() + b"\0")
        except OSError as e:
            raise BrowserError(f"the browser is gone: {e}; {self.said()}") from e
        deadline = time.monotonic() + self.timeout
        while wait:
            got = self._message(deadline)
            if got.get("id") == self.last:
                if "error" in got:
                    raise BrowserError(f"{method}: {got['error']['message']}")
                return got["result"]
            if "method" in got:
                self._event(got)
        return None

    def open(self, url, width=1440, height=900, dark=False, script=True, media=""):
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self.pages[session] = Page(self, session, target)
        page.loaded, page.width = False, width
        for domain in ("Page", "Runtime", "Log"):
            page.call(domain + ".enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        page.call("Emulation.setEmulatedMedia", media=media, features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        page.call("Emulation.setScriptExecutionDisabled", value=not script)
        page.call("Page.navigate", url=url)
        deadline = time.monotonic() + self.timeout
        while not page.loaded:
            got = self._message(deadline)
            if "method" in got:
                self._event(got)
        return page
