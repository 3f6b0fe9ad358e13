"""Headless Chromium, driven over its debugging pipe: one page, no driver and no library between."""
import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE_S = 30


class Chromium:
    """A browser with one page as a context manager."""

    def __init__(self, width=1400, height=1000, dark=False):
        self._size = (width, height)
        self._dark = dark
        self._numbers = itertools.count(1)
        self._buffer = b""
        self.console = []  # errors that the page reported

    def __enter__(self):
        self._folder = tempfile.mkdtemp(prefix="millrace-browser-")
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def on_three_and_four():  # the browser reads commands from 3 and answers on 4
            low, high = os.dup2(to_browser, 20), os.dup2(from_browser, 21)
            os.dup2(low, 3, inheritable=True)
            os.dup2(high, 4, inheritable=True)

        self._process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--hide-scrollbars", "--disable-background-networking", "--remote-debugging-pipe",
             f"--user-data-dir={self._folder}", "about:blank"],
            preexec_fn=on_three_and_four, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._session = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.resize(*self._size)
        if self._dark:
            self.dark(True)
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._folder, ignore_errors=True)

    def send(self, method, **parameters):
        """One command and its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            answer = self._receive(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
        raise AssertionError(f"Chromium does not answer to {method}")

    def _receive(self, deadline):
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return {}
            part = os.read(self._read, 1 << 16)
            if not part:
                raise AssertionError("Chromium has ended")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        if message.get("method") == "Runtime.exceptionThrown":
            self.console.append(message["params"]["exceptionDetails"].get("exception", {}).get("description", "exception"))
        if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.console.append(message["params"]["entry"]["text"] + " " + message["params"]["entry"].get("url", ""))
        return message

    def open(self, url):
        self.send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression, patience_s=PATIENCE_S):
        """Until the expression is true on the page; returns it."""
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.1)
        raise AssertionError(f"not within {patience_s} s on the page: {expression}")

    def resize(self, width, height, mobile=False):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def dark(self, on):
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def press(self, key, code=None, text=None):
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=code or key,
                      windowsVirtualKeyCode={"Tab": 9, "Enter": 13, " ": 32, "Escape": 27}.get(key, 0), **more)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def screenshot(self, path, whole=True):
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
