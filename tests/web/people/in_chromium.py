"""Tests in a real browser: their marks, how a page is judged, and what people write by keyboard."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.accessibility import assert_accessible, axe_violations
from tests.harness.browser import CHROMIUM, Browser
from tests.harness.passwords import PASSWORD

Keep = Callable[[str], None]
LABELS = {"name": "Your name", "email": "Email address", "password": "Password"}


def in_chromium(seconds: int) -> list[pytest.MarkDecorator]:
    """Return the marks of a file whose tests need Chromium, and take so many seconds together."""
    return [
        pytest.mark.check,
        pytest.mark.slow(seconds),
        pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    ]


def judge_looks(browser: Browser, name: str) -> None:
    """Judge the page as it is, wide and narrow, and keep a picture of it where that is wanted."""
    for width, scheme in ((320, "light"), (390, "dark"), (390, "light"), (1280, "dark"), (1280, "light")):
        browser.resize(width)
        browser.prefer(scheme)
        assert_accessible(browser)
        if (width, scheme) in {(320, "light"), (1280, "dark")}:
            assert axe_violations(browser) == [], name
        assert browser.value("document.documentElement.scrollWidth") <= width, f"{name} scrolls at {width} px"
        if directory := os.environ.get("PICTURES"):
            (Path(directory) / f"{name}-{width}-{scheme}.png").write_bytes(browser.picture())


def fill_form(browser: Browser, **fields: str) -> None:
    """Reach each field by its label with the Tab key, and write into it; then send the form from the last one."""
    for name, text in fields.items():
        browser.tab_to(LABELS[name])
        browser.write(text)
    browser.press_and_go()


def sign_in(browser: Browser, site: str, email: str, password: str = PASSWORD) -> None:
    """Sign in at the page for it."""
    browser.open(f"{site}/sign-in")
    fill_form(browser, email=email, password=password)
