"""A headless Chromium, driven over two pipes by the DevTools protocol: no driver, no library, no port.

https://chromedevtools.github.io/devtools-protocol/ describes the messages. Every wait has a deadline.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DEADLINE_S = 60.0

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
    "--disable-background-networking", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip

# The browser reads from descriptor 3 and writes to 4; moved out of the way first, in case one is the other's place.
_AS_3_AND_4 = """
import fcntl, os, sys
given, taken = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(given, 3)
os.dup2(taken, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find() -> str | None:
    """The path of a Chromium on this machine."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for path in map(shutil.which, names) if path), None)


class Page:
    """One tab. problems: errors of scripts, and what the console or the page's security policy complained about."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.problems: list[str] = []
        self.events: list[str] = []
        self._to, self._from = to_browser, from_browser
        self._buffer = b""
        self._last = 0
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, file: Path, *, width: int, height: int, dark: bool = False) -> None:
        """Loads a file and waits until it is there."""
        self.visit(file.resolve().as_uri(), width=width, height=height, dark=dark)

    def visit(self, address: str, *, width: int, height: int, dark: bool = False) -> None:
        """Loads what is at that address and waits until it is there."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=address)
        while "Page.loadEventFired" not in self.events:
            self._read()

    def evaluate(self, script: str) -> Any:
        """The value of an expression, which must be plain data."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def hover(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def screenshot(self) -> bytes:
        """PNG of the whole page."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + DEADLINE_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._from, selectors.EVENT_READ)
            while b"\0" not in self._buffer:
                ready = selector.select(max(until - time.monotonic(), 0))
                assert ready, f"the browser said nothing for {DEADLINE_S} s"
                data = os.read(self._from, 1 << 16)
                assert data, "the browser went away"
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method", ""), message.get("params", {})
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Page]:
    """A new browser with an empty profile, which is gone at the end."""
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", _AS_3_AND_4, str(in_read), str(out_write), program, *_FLAGS,
         f"--user-data-dir={profile}"],
        pass_fds=(in_read, out_write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(in_read)
    os.close(out_write)
    try:
        yield Page(in_write, out_read)
        # Asked to leave, it takes all its processes with it.
        os.write(in_write, b'{"id":0,"method":"Browser.close"}\0')
        process.wait(DEADLINE_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(DEADLINE_S)
        os.close(in_write)
        os.close(out_read)
