"""What a machine can see of WCAG 2.2 AA on a page that a browser shows: our own checks, and those of axe-core."""

import json
from functools import cache
from pathlib import Path

from tests.harness.browser import Browser

_AXE = Path(__file__).parent.parent.parent / "node_modules" / "axe-core" / "axe.min.js"
_EVERYTHING = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
_LOOK = {
    "type": "rule",
    "values": ["color-contrast", "link-in-text-block", "target-size", "scrollable-region-focusable"],
}
"""The rules whose findings depend on colours and widths."""
_VIOLATIONS = """
axe.run({ runOnly: %s, resultTypes: ["violations"] })
  .then(found => found.violations.map(each => `${each.id}: ${each.nodes.map(node => node.html).join(" | ")}`))
"""

_CONTRAST = """
(() => {
  const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const ground = e => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) && e.tagName !== 'INPUT') continue;
    const style = getComputedStyle(e), a = light(parse(style.color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(e.tagName + ' ' + e.textContent.trim().slice(0, 30) + ' ' + ratio.toFixed(2));
    if (e.tagName === 'INPUT' && e.type !== 'hidden' && e.type !== 'radio') {
      const line = light(parse(style.borderTopColor));
      const edge = (Math.max(line, b) + 0.05) / (Math.min(line, b) + 0.05);
      if (edge < 3) bad.push('border of ' + e.name + ' ' + edge.toFixed(2));
    }
  }
  return bad;
})()
"""
_NAMED = """
['aria-describedby', 'aria-labelledby', 'for', 'href'].flatMap(name =>
  [...document.querySelectorAll(`[${name}]`)].map(e => e.getAttribute(name))
    .filter(value => name !== 'href' || value.startsWith('#')).map(value => value.replace('#', ''))).join(' ')
"""
_SMALL_TARGETS = """
[...document.querySelectorAll('button, a.button, input:not([type=hidden]):not(.unseen)')]
  .filter(e => e.checkVisibility())
  .filter(e => e.getBoundingClientRect().height < 24 || e.getBoundingClientRect().width < 20)
  .map(e => e.textContent || e.name)
"""


def assert_accessible(browser: Browser) -> None:
    """Check language, landmarks, headings, names, references, contrast (1.4.3, 1.4.11) and sizes (2.5.8)."""
    announced = browser.announced()
    roles = [role for role, _ in announced]
    assert browser.value("document.documentElement.lang") == "en"
    assert {"banner", "navigation", "main"} <= set(roles), roles
    assert roles.count("main") == 1
    assert browser.value("document.querySelectorAll('h1').length") == 1
    assert browser.title.endswith(" · Change-Freeze Service")
    unnamed = [role for role, name in announced if role in {"textbox", "button", "link", "radio"} and not name.strip()]
    assert unnamed == []
    ids = browser.value("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    assert set(browser.value(_NAMED).split()) <= set(ids)
    assert browser.value(_CONTRAST) == []
    assert browser.value(_SMALL_TARGETS) == []


def axe_violations(browser: Browser, *, look_only: bool = False) -> list[str]:
    """Return what axe-core finds, everywhere or in this look only: the rule, and the elements that break it."""
    with browser.running_scripts():
        if not browser.value("'axe' in window"):
            browser.value(_axe_source())
        found: list[str] = browser.value(_VIOLATIONS % json.dumps(_LOOK if look_only else _EVERYTHING))
    return found


@cache
def _axe_source() -> str:
    assert _AXE.exists(), f"{_AXE} is missing: run npm ci"
    return _AXE.read_text()
