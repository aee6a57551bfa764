"""What a person does in a browser, counted: clicks with the mouse, and fields that are filled in."""

import json

from tests.harness.browser import Browser
from tests.harness.concurrency import eventually

_FIND = """
(name => {
  const said = each => (each.ariaLabel || each.innerText || each.value || "").replace(/\\s+/g, " ").trim();
  const shown = [...document.querySelectorAll("a, button, summary, label, input[type=submit]")]
    .filter(each => each.checkVisibility({visibilityProperty: true}) && !each.closest("[inert]"));
  const inside = document.querySelector("dialog[open]");
  const found = shown.filter(each => !inside || inside.contains(each))
    .filter(each => said(each) === name || said(each).startsWith(name));
  const exact = found.find(each => said(each) === name) || found[0];
  if (!exact) return null;
  exact.scrollIntoView({block: "center", behavior: "instant"});
  const place = exact.getBoundingClientRect();
  return [place.x + Math.min(place.width / 2, 60), place.y + place.height / 2];
})"""
_FILL = """
((label, text) => {
  const named = [...document.querySelectorAll("label")]
    .find(each => each.innerText.trim().startsWith(label) && each.checkVisibility());
  const field = named && document.getElementById(named.htmlFor);
  if (!field) return false;
  field.focus();
  field.value = text;
  field.dispatchEvent(new Event("input", {bubbles: true}));
  field.dispatchEvent(new Event("change", {bubbles: true}));
  return true;
})"""


class Counted:
    """A person at a browser."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.clicks = self.fields = 0

    def click(self, name: str, *, go: bool = True) -> None:
        """Click what is called so, or begins so, and wait for the page that it leads to."""
        place = self.browser.value(f"{_FIND}({json.dumps(name)})")
        assert place, f"there is no {name!r} to click: {self.browser.text}"
        self.clicks += 1
        self.browser.click(*place, go=go)

    def fill(self, label: str, text: str) -> None:
        """Fill the field in whose label begins so."""
        assert self.browser.value(f"{_FILL}({json.dumps(label)}, {json.dumps(text)})"), (label, self.browser.text)
        self.fields += 1

    def took_at_most(self, clicks: int, fields: int) -> bool:
        """True if the person needed no more clicks, and no more fields, than these."""
        return self.clicks <= clicks and self.fields <= fields

    def sees(self, text: str) -> None:
        """Wait until a text is on the page."""
        eventually(lambda: text in self.browser.text)
