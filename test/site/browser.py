"""Headless Chromium, driven by its DevTools protocol over a pipe."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
# Chromium reads commands from one file descriptor and writes answers to the other.
READS, WRITES = 3, 4


class Browser:
    """One page of a browser. It notes the requests and the errors of the pages that it opens."""

    def __init__(self, commands: int, answers: int) -> None:
        self.commands, self.answers = commands, answers
        self.buffer = b""
        self.number = 0
        self.session: str | None = None
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.is_loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while (answer := self.message()).get("id") != self.number:
            self.note(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def message(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], 60)
            assert ready, "the browser does not answer"
            read = os.read(self.answers, 1 << 20)
            assert read, "the browser has ended"
            self.buffer += read
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def note(self, event: dict[str, Any]) -> None:
        about = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(about["request"]["url"])
            case "Network.loadingFailed" if not about.get("canceled"):
                self.errors.append(f"a request failed: {about['errorText']}")
            case "Runtime.exceptionThrown":
                details = about["exceptionDetails"]
                said = details.get("exception", {}).get("description", "")
                self.errors.append(f"{details['text']} {said}")
            case "Runtime.consoleAPICalled" if about["type"] in ("error", "warning", "assert"):
                self.errors.append(str([each.get("value") for each in about["args"]]))
            case "Log.entryAdded" if about["entry"]["level"] == "error":
                self.errors.append(about["entry"]["text"])
            case "Page.loadEventFired":
                self.is_loaded = True

    def open(self, url: str) -> None:
        """Opens a page and waits until it is loaded."""
        self.is_loaded = False
        opened = self.call("Page.navigate", url=url)
        assert "errorText" not in opened, (url, opened["errorText"])
        while not self.is_loaded:
            self.note(self.message())

    def value(self, expression: str) -> Any:
        """Returns the value of an expression of JavaScript on the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, expression: str, seconds: float = 30) -> Any:
        """Waits until an expression is true, and returns its value."""
        end = time.monotonic() + seconds
        while not (value := self.value(expression)):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.05)
        return value


@contextlib.contextmanager
def started(*flags: str) -> Iterator[Browser]:
    """Starts a browser whose requests to other hosts than this one all fail."""
    assert CHROMIUM, "install chromium-headless-shell (.ci/setup does)"
    its_commands, commands = os.pipe()
    answers, its_answers = os.pipe()

    def place_pipes() -> None:
        spare = os.dup(its_answers)
        os.dup2(its_commands, READS)
        os.dup2(spare, WRITES)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                f"--user-data-dir={pathlib.Path(profile)}", "--disable-background-networking",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", *flags,
            ],
            preexec_fn=place_pipes, pass_fds=(READS, WRITES),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(its_commands)
        os.close(its_answers)
        try:
            yield Browser(commands, answers)
        finally:
            process.kill()
            process.wait()
            os.close(commands)
            os.close(answers)
