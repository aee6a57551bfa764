"""A headless Chromium, driven over its own pipe (the DevTools protocol), with scripts of pages switched off.

Only what tests need: open an address, press keys, see what has the focus, what a screen reader says, and take
pictures. Nothing is waited for by time: every step ends with the event that it causes.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
RENDERED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
"""Wait until the page is on the screen: only then Chromium has moved the focus to what has `autofocus`."""
_TIMEOUT = 30
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_ON_THREE_AND_FOUR = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execvp(sys.argv[3], sys.argv[3:])"
)
_KEYS = {"Tab": 9, "Enter": 13, "Space": 32, "ArrowDown": 40}
_TEXTS = {"Enter": "\r", "Space": " "}


class Browser:
    """A running Chromium, and the one tab of it that is driven: `profile` opens it."""

    def __init__(self, to: BinaryIO, come_from: int) -> None:
        self._to = to
        self._from = come_from
        self._buffer = b""
        self._number = 0
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None
        self._runs_scripts = True

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])
            self._events.append(answer)

    def open(self, url: str) -> None:
        """Open an address, and wait until it is there."""
        self._events.clear()
        self.call("Page.navigate", url=url)
        self._await("Page.loadEventFired")

    def press(self, key: str) -> None:
        """Press a key, or that of a character, that stays on the page."""
        number = ord(key.upper()) if len(key) == 1 else _KEYS[key]
        shared = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": number}
        text = {"text": _TEXTS.get(key, key)} if key in _TEXTS or len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **shared, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **shared)

    def press_and_go(self, key: str = "Enter") -> None:
        """Press a key that leads to another page, and wait until it is there."""
        self._events.clear()
        self.press(key)
        self._await("Page.loadEventFired")

    def click(self, x: float, y: float, *, go: bool) -> None:
        """Click at a place of the window; if it leads to another page, wait until that is there."""
        self._events.clear()
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        if go:
            self._await("Page.loadEventFired")

    def go_on(self) -> None:
        """Wait for the next page, which the page opens by itself."""
        self._await("Page.loadEventFired")

    def write(self, text: str) -> None:
        """Write into what has the focus."""
        self.call("Input.insertText", text=text)

    def tab_to(self, name: str, most: int = 60) -> None:
        """Go on with the Tab key until something of this accessible name has the focus."""
        passed = []
        for _ in range(most):
            self.press("Tab")
            passed.append(self.focus())
            if name in passed[-1]:
                return
        raise AssertionError(f"{name!r} is not reached with the Tab key, only {passed}")

    def focus(self) -> str:
        """Return the accessible name of what has the focus."""
        found = self.call("Runtime.evaluate", expression="document.activeElement")["result"]
        nodes = self.call("Accessibility.getPartialAXTree", objectId=found["objectId"], fetchRelatives=False)["nodes"]
        return str(nodes[0].get("name", {}).get("value", "")) if nodes else ""

    def value(self, expression: str) -> Any:
        """Return what an expression, or its promise, is on the page; that is the test's script, not the page's."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    @property
    def text(self) -> str:
        """What stands on the page."""
        return str(self.value("document.body?.innerText ?? ''"))

    @property
    def path(self) -> str:
        """The address without its origin."""
        return str(self.value("location.pathname + location.search"))

    @property
    def title(self) -> str:
        """The page's title."""
        return str(self.value("document.title"))

    def announced(self) -> list[tuple[str, str]]:
        """Return role and name of everything that a screen reader says."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node["ignored"] and "role" in node
        ]

    def resize(self, width: int, height: int = 900) -> None:
        """Make the window this wide and high, in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def prefer(self, color_scheme: str, forced_colors: str = "none") -> None:
        """Have pages shown in a colour scheme, `light` or `dark`, and with forced colours if they are `active`."""
        features = {"prefers-color-scheme": color_scheme, "forced-colors": forced_colors}
        named = [{"name": name, "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=named)

    def run_scripts(self, *, enabled: bool) -> None:
        """Switch the scripts of pages on or off."""
        self.call("Emulation.setScriptExecutionDisabled", value=not enabled)
        self._runs_scripts = enabled

    @contextmanager
    def running_scripts(self) -> Iterator[None]:
        """Let the test's own scripts run to their end; those of a page that is shown already stay off."""
        runs = self._runs_scripts
        self.run_scripts(enabled=True)
        yield
        self.run_scripts(enabled=runs)

    def complaints(self) -> list[dict[str, Any]]:
        """Return what the browser has complained of since the last page was opened: errors, and refusals by policy."""
        self.value("0")
        kinds = {"Log.entryAdded", "Runtime.exceptionThrown"}
        return [event["params"] for event in self._events if event.get("method") in kinds]

    def requested(self) -> list[str]:
        """Return the addresses that have been asked for since the last page was opened, those that were refused too."""
        self.value("0")
        sent = [each["params"] for each in self._events if each.get("method") == "Network.requestWillBeSent"]
        return [str(each["request"]["url"]) for each in sent]

    def picture(self) -> bytes:
        """Return the whole page as PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        return base64.b64decode(data)

    def forget(self) -> None:
        """Forget every cookie."""
        self.call("Network.clearBrowserCookies")

    @contextmanager
    def opening_window(self, key: str = "Enter") -> Iterator[None]:
        """Press a key that opens an empty window, and be in it, with its scripts running, until the block ends."""
        opener = self._session
        self.press(key)
        self._session = None
        try:
            targets = self.call("Target.getTargets")["targetInfos"]
            [window] = [each["targetId"] for each in targets if "openerId" in each]
            self._attach(window)
            yield
        finally:
            self._session = opener

    @contextmanager
    def profile(self) -> Iterator[Self]:
        """Be in a window with a profile of its own, empty and without scripts, until the block ends."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        self._attach(self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"])
        self.run_scripts(enabled=False)
        try:
            yield self
        finally:
            self._session = None
            self.call("Target.disposeBrowserContext", browserContextId=context)

    def _attach(self, target: str) -> None:
        """Drive this tab or window from now on."""
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):  # "Accessibility" would be kept up with each change
            self.call(f"{domain}.enable")

    def _await(self, event: str) -> None:
        while True:
            for position, known in enumerate(self._events):
                if known.get("method") == event and known.get("sessionId") == self._session:
                    del self._events[: position + 1]
                    return
            self._events.append(self._read())

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], _TIMEOUT)
            assert ready, "Chromium says nothing"
            read = os.read(self._from, 65_536)
            assert read, "Chromium has ended"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def chromium(home: Path) -> Iterator[Browser]:
    """Run a Chromium whose own profile lies in `home`, and end it."""
    assert CHROMIUM is not None
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    passed = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (in_read, out_write)]
    command = [sys.executable, "-c", _ON_THREE_AND_FOUR, *map(str, passed), CHROMIUM, *_FLAGS]
    process = subprocess.Popen(
        [*command, f"--user-data-dir={home}"],
        pass_fds=passed,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for each in (in_read, out_write, *passed):
        os.close(each)
    with os.fdopen(in_write, "wb") as to:
        try:
            yield Browser(to, out_read)
        finally:
            process.terminate()
            try:
                process.wait(timeout=_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(out_read)
