"""Headless Chromium through its DevTools pipe: two file descriptors and JSON, so no driver and no further package."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE_S = 120


def find() -> str | None:
    """The browser's program, where there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def browser(program: str) -> Iterator[Browser]:
    """A running browser with a profile of its own, ended at the end."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    # Chromium reads from 3 and writes to 4: both ends out of the way first, or one could stand in the other's place.
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, from_write)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [program, "--headless", "--remote-debugging-pipe", f"--user-data-dir={profile}", "--disable-gpu"]
        words += ["--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars"]
        words += ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
        files = [(os.POSIX_SPAWN_DUP2, ends[0], 3), (os.POSIX_SPAWN_DUP2, ends[1], 4)]
        files += [(os.POSIX_SPAWN_OPEN, out, os.devnull, os.O_WRONLY, 0) for out in (1, 2)]
        pid = os.posix_spawn(program, words, {**os.environ, "LC_ALL": "C.UTF-8"}, file_actions=files)
        for end in (to_read, from_write, *ends):
            os.close(end)
        try:
            yield Browser(to_write, from_read)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(to_write)
            os.close(from_read)


class Browser:
    """Sends commands and collects events; see the DevTools protocol for both."""

    def __init__(self, to: int, back: int) -> None:
        self.to, self.back = to, back
        self.pending, self.last_id = b"", 0
        self.events: list[dict[str, Any]] = []

    def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Run a command and give back its result."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        os.write(self.to, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self.last_id:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def wait(self, method: str) -> None:
        """Until an event has come."""
        while not any(event["method"] == method for event in self.events):
            self._receive()

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.back], [], [], deadline - time.monotonic())
            data = os.read(self.back, 1 << 16) if ready else b""
            if not data:
                raise TimeoutError("the browser does not answer")
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\0")
        message = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message


class Page:
    """One page in a tab of its own, of a width, in light or dark."""

    def __init__(
        self, browser: Browser, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False
    ) -> None:
        self.browser = browser
        browser.events.clear()
        target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=path.as_uri())
        browser.wait("Page.loadEventFired")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """A command to this page."""
        return self.browser.send(method, self.session, **params)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """A key, as from the keyboard."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, text=text, windowsVirtualKeyCode=codes[key])

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """The page as a PNG; `whole`: all of its height."""
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def print_to(self, path: Path) -> None:
        """The page as it would be printed, as PDF."""
        path.write_bytes(base64.b64decode(self.send("Page.printToPDF", preferCSSPageSize=True)["data"]))

    @property
    def complaints(self) -> list[str]:
        """Console errors and warnings, log entries and uncaught exceptions."""
        found = []
        for event in self.browser.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"]["text"])
            elif event["method"] == "Log.entryAdded":
                found.append(params["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning", "assert"}:
                found.append(str(params["args"]))
        return found

    @property
    def requests(self) -> list[str]:
        """Addresses that the page asked for, beside itself and what it carries as data."""
        sent = [
            e["params"]["request"]["url"] for e in self.browser.events if e["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in sent[1:] if not url.startswith("data:")]
