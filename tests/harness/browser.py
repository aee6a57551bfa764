"""A headless Chromium, driven by Playwright, with scripts of pages switched off.

Only what tests need: open an address, press keys, see what has the focus, what a screen reader says, and take
pictures. Nothing is waited for by time: every step ends with the event that it causes.

Playwright runs in a thread with an event loop of its own: tests start event loops in theirs.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.async_api import Browser as Chromium
from playwright.async_api import CDPSession, Page, async_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
RENDERED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
"""Wait until the page is on the screen: only then Chromium has moved the focus to what has `autofocus`."""
_TIMEOUT = 30


class Browser:
    """A running Chromium, and the one tab of it that is driven: `profile` opens it."""

    _page: Page
    _tools: CDPSession
    """The tab's developer tools."""

    def __init__(self, portal: BlockingPortal, running: Chromium) -> None:
        self._portal = portal
        self._running = running
        self._loads = asyncio.Semaphore(0)
        self._complaints: list[dict[str, Any]] = []
        self._requested: list[str] = []
        self._runs_scripts = True

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command of the DevTools protocol and return its result."""
        return dict(self._portal.call(self._tools.send, method, parameters))

    def open(self, url: str) -> None:
        """Open an address, and wait until it is there."""
        self._go(partial(self._page.goto, url, wait_until="commit"))

    def press(self, key: str) -> None:
        """Press a key, or that of a character, that stays on the page."""
        self._portal.call(self._page.keyboard.press, key)

    def press_and_go(self, key: str = "Enter") -> None:
        """Press a key that leads to another page, and wait until it is there."""
        self._go(partial(self._page.keyboard.press, key))

    def click(self, x: float, y: float, *, go: bool) -> None:
        """Click at a place of the window; if it leads to another page, wait until that is there."""
        self._go(partial(self._page.mouse.click, x, y), leads=go)

    def go_on(self) -> None:
        """Wait for the next page, which the page opens by itself."""
        self._portal.call(self._loaded)

    def write(self, text: str) -> None:
        """Write into what has the focus."""
        self._portal.call(self._page.keyboard.insert_text, text)

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
        """Return what the browser has complained of since the last page was opened: errors, and refusals by policy.

        That the page itself is answered with the status of an error is none.
        """
        answer = {"source": "network", "url": self.value("location.href")}
        return [each for each in self._complaints if not answer.items() <= each.get("entry", {}).items()]

    def requested(self) -> list[str]:
        """Return the addresses that have been asked for since the last page was opened, those that were refused too."""
        self.value("0")
        return list(self._requested)

    def picture(self) -> bytes:
        """Return the whole page as PNG."""
        return self._portal.call(partial(self._page.screenshot, full_page=True))

    def forget(self) -> None:
        """Forget every cookie."""
        self._portal.call(self._page.context.clear_cookies)

    @contextmanager
    def opening_window(self, key: str = "Enter") -> Iterator[None]:
        """Press a key that opens an empty window, and be in it, with its scripts running, until the block ends."""
        opener = self._page, self._tools

        async def press() -> None:
            async with self._page.expect_popup() as window:
                await self._page.keyboard.press(key)
            await self._drive(await window.value)

        self._portal.call(press)
        try:
            yield
        finally:
            self._page, self._tools = opener

    @contextmanager
    def profile(self) -> Iterator[Self]:
        """Be in a window with a profile of its own, empty and without scripts, until the block ends."""
        context = self._portal.call(partial(self._running.new_context, no_viewport=True))
        self._portal.call(self._drive, self._portal.call(context.new_page))
        self.run_scripts(enabled=False)
        try:
            yield self
        finally:
            self._portal.call(context.close)

    async def _drive(self, page: Page) -> None:
        """Drive this tab or window from now on."""

        def complained(event: dict[str, Any]) -> None:
            self._complaints.append(event)

        tools = await page.context.new_cdp_session(page)
        page.on("load", lambda _: self._loads.release())
        for kind in ("Log.entryAdded", "Runtime.exceptionThrown"):
            tools.on(kind, complained)
        tools.on("Network.requestWillBeSent", lambda event: self._requested.append(event["request"]["url"]))
        for domain in ("Page", "Runtime", "Network", "Log"):  # "Accessibility" would be kept up with each change
            await tools.send(f"{domain}.enable")
        self._page, self._tools = page, tools

    def _go(self, step: Callable[[], Awaitable[object]], *, leads: bool = True) -> None:
        """Take a step; if it leads to another page, wait until that is there."""

        async def go() -> None:
            self._loads = asyncio.Semaphore(0)
            self._complaints.clear()
            self._requested.clear()
            await step()
            if leads:
                await self._loaded()

        self._portal.call(go)

    async def _loaded(self) -> None:
        async with asyncio.timeout(_TIMEOUT):
            await self._loads.acquire()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a Chromium, and end it."""

    async def launch() -> Chromium:
        return await playwright.chromium.launch(executable_path=CHROMIUM, args=["--disable-gpu"])

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(async_playwright()) as playwright:
        running = portal.call(launch)
        try:
            yield Browser(portal, running)
        finally:
            portal.call(running.close)
