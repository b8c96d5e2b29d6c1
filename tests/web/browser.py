"""Chromium without a window, driven through a pipe by its own protocol: no package is needed."""

import base64
import json
import os
import select
import subprocess
import tempfile
import time


class Browser:
    def __init__(self, command="chromium"):
        self.home = tempfile.TemporaryDirectory()
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        words = [
            command,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            "--remote-debugging-pipe",
            f"--user-data-dir={self.home.name}",
            "about:blank",
        ]
        # the protocol's files are 3 and 4
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "sh"] + words,
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.rest = b""
        self.id = 0
        self.errors = []  # of the console, and exceptions
        # its first start on a machine takes long
        target = self.call("Target.createTarget", {"url": "about:blank"}, 120)["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def message(self, seconds):
        until = time.monotonic() + seconds
        while b"\0" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            some = os.read(self.back, 1 << 20)
            if not some:
                raise RuntimeError("the browser has ended")
            self.rest += some
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, params=None, seconds=60):
        self.id += 1
        words = {"id": self.id, "method": method, "params": params or {}}
        if getattr(self, "session", None):
            words["sessionId"] = self.session
        os.write(self.to, json.dumps(words).encode() + b"\0")
        while True:
            m = self.message(seconds)
            if m.get("id") == self.id:
                if "error" in m:
                    raise RuntimeError(f"{method}: {m['error']}")
                return m["result"]
            self.event(m)

    def event(self, m):
        params = m.get("params", {})
        if m["method"] == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:500])
        elif m["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(json.dumps(params["args"])[:500])
        elif m["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"][:500])
        elif m["method"] == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "blob:", "data:", "about:")):
                self.errors.append("asks the network: " + url)

    def value(self, expression, seconds=60):
        """Of an expression, or of what its promise brings."""
        r = self.call(
            "Runtime.evaluate",
            {"expression": expression, "awaitPromise": True, "returnByValue": True},
            seconds,
        )
        if "exceptionDetails" in r:
            raise RuntimeError(json.dumps(r["exceptionDetails"])[:800])
        return r["result"].get("value")

    def open(self, url, ready, seconds=60):
        self.call("Page.navigate", {"url": url})
        self.wait(ready, seconds)

    def wait(self, condition, seconds=60):
        until = time.monotonic() + seconds
        while not self.value(f"Boolean({condition})"):
            if time.monotonic() > until:
                raise TimeoutError(condition)
            time.sleep(0.02)

    def size(self, width, height, dark=False, media=""):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        self.call(
            "Emulation.setEmulatedMedia",
            {
                "media": media,
                "features": [
                    {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
                ],
            },
        )

    def picture(self, path, whole=True):
        r = self.call("Page.captureScreenshot", {"captureBeyondViewport": whole, "format": "png"})
        with open(path, "wb") as f:
            f.write(base64.b64decode(r["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close", seconds=10)
        except (OSError, RuntimeError, TimeoutError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.home.cleanup()
