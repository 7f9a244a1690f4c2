"""A real Chromium, without a window, spoken to over a pipe: the DevTools protocol needs neither a
port nor a client library.

Chromium reads commands from file descriptor 3 and answers on 4, JSON with a zero byte after each
message.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
# the shell puts the pipe where Chromium looks for it
START = 'exec "$@" 3<&"$COMMANDS" 4>&"$ANSWERS"'
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--mute-audio",
)
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-default-apps",
)


class Browser:
    """A context: one process, one page at a time."""

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(
            prefix="mnngp-chromium-", ignore_cleanup_errors=True
        )
        their_input, self.write_end = os.pipe()
        self.read_end, their_output = os.pipe()
        command = [
            PROGRAM,
            *FLAGS,
            *QUIET,
            f"--user-data-dir={self.profile.name}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        self.process = subprocess.Popen(
            ["bash", "-c", START, "bash", *command],
            pass_fds=(their_input, their_output),
            env={
                **os.environ,
                "COMMANDS": str(their_input),
                "ANSWERS": str(their_output),
                "HOME": self.profile.name,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_input)
        os.close(their_output)
        self.count, self.pending, self.events, self.session, self.target = 0, b"", [], None, None
        return self

    def __exit__(self, *_):
        os.close(self.write_end)  # Chromium ends when nobody speaks to it any more
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read_end)
        self.profile.cleanup()

    def _message(self, deadline):
        while b"\0" not in self.pending:
            ready, _, _ = select.select(
                [self.read_end], [], [], max(0.0, deadline - time.monotonic())
            )
            if not ready:
                raise TimeoutError("Chromium does not answer")
            if not (data := os.read(self.read_end, 1 << 20)):
                raise ConnectionError(f"Chromium has ended, with code {self.process.poll()}")
            self.pending += data
        message, _, self.pending = self.pending.partition(b"\0")
        return json.loads(message)

    def call(self, method, seconds=60.0, **parameters):
        """Send a command and return its result; events that come before it are kept."""
        self.count += 1
        command = {"id": self.count, "method": method, "params": parameters}
        if self.session and not method.startswith(("Target.", "Browser.")):
            command["sessionId"] = self.session
        os.write(self.write_end, json.dumps(command).encode() + b"\0")
        deadline = time.monotonic() + seconds
        while True:
            message = self._message(deadline)
            if message.get("id") == self.count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def open(self, url, *, width=1440, height=900, dark=False, scripts=True):
        """Load a page in a new tab, and wait until its figures are drawn (or, without scripts,
        until it is loaded).
        """
        before, self.target = (
            self.target,
            self.call("Target.createTarget", url="about:blank")["targetId"],
        )
        self.session = self.call("Target.attachToTarget", targetId=self.target, flatten=True)[
            "sessionId"
        ]
        if before:
            self.call("Target.closeTarget", targetId=before)
        self.events = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + 60.0
        while self.value("document.readyState") != "complete" or (
            scripts and self.value("document.documentElement.dataset.ready") != "yes"
        ):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{url} does not get ready: {self.complaints()}")
            time.sleep(0.05)
        return self

    def value(self, expression):
        """What a JavaScript expression is in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def press(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def complaints(self):
        """Everything that went to the console or failed, since the page was opened."""
        self.value("1")
        found = []
        for event in self.events:
            method, detail = event.get("method"), event.get("params", {})
            console = method == "Runtime.consoleAPICalled" and detail["type"] in (
                "error",
                "warning",
                "assert",
            )
            if console or method in ("Runtime.exceptionThrown", "Log.entryAdded"):
                found.append(json.dumps(detail)[:1000])
        return found

    def requests(self):
        """The addresses that were asked for, but for what is in the page itself."""
        self.value("1")
        urls = [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("data:", "blob:"))]

    def picture(self, path, *, whole=True):
        """Write a PNG of the page."""
        data = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole)
        )["data"]
        path.write_bytes(base64.b64decode(data))

    def _clip(self, whole):
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {
            "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        }
