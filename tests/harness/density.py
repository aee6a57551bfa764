"""How high buttons and fields of a page are, and which ids stand on it in the open."""

from tests.harness.browser import Browser

_CONTROLS = """[...new Set([...document.querySelectorAll("button, .button, select, .field input")]
  .filter(each => each.checkVisibility() && !each.matches(".plain, .event, [type=checkbox], [type=radio]"))
  .map(each => each.getBoundingClientRect().height))]"""
_IDS = """[...document.querySelectorAll("main *")].filter(each => each.checkVisibility()
  && [...each.childNodes].some(node => node.nodeType === 3 && /\\b[a-z]{3}_[0-9a-z]{26}\\b/.test(node.data)))
  .map(each => each.textContent)"""


def control_heights(browser: Browser) -> set[float]:
    """Return the heights of buttons and fields in CSS pixels; words of a line and bars of a calendar are neither."""
    return set(browser.value(_CONTROLS))


def shown_ids(browser: Browser) -> list[str]:
    """Return the texts on the page that have an id."""
    texts: list[str] = browser.value(_IDS)
    return texts
