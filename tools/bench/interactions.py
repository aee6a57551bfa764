"""How soon pages answer to clicks and keys on a processor of a quarter of the speed (interaction to next paint).

The organisation is that of `overview`. Of each step the best of some tries counts, since other programs use the
processor as well. Aim: 100 ms for each.
"""

from tests.harness.browser import CHROMIUM, RENDERED, Browser
from tools.bench.overview import seed
from tools.bench.pages import browsing, sign_in
from tools.bench.servers import storage, web

TRIES = 3
AIM_MS = 100
WATCH = """(window.slowest = 0, window.counted = performance.interactionCount, new PerformanceObserver(list => {
  for (const each of list.getEntries()) if (each.interactionId) slowest = Math.max(slowest, each.duration);
}).observe({ type: "event", durationThreshold: 16 }), document.documentElement.append(window.dot = new Image(1, 1)),
  dot.style = "position: fixed; inset: 0")"""
TAKE = f"""new Promise(done => {{
  dot.style.background = dot.style.background ? "" : "red";
  const look = () => performance.interactionCount === counted ? setTimeout(look, 20) : setTimeout(() => {{
    done(slowest);
    slowest = 0;
    counted = performance.interactionCount;
  }}, 200);
  {RENDERED}.then(look);
}})"""
"""The milliseconds of the slowest interaction since the last time; 0 if none took 16.

A click that changes nothing would last until something else is painted, here the next step: so a dot is."""
PLACE = """(selector => new Promise(done => {
  const look = () => {
    const found = [...document.querySelectorAll(selector)].find(each => each.checkVisibility());
    if (!found) return setTimeout(look, 20);
    found.scrollIntoView({ block: "center", behavior: "instant" });
    const place = found.getBoundingClientRect();
    done([place.x + place.width / 2, place.y + place.height / 2]);
  };
  look();
}))"""
"""Where something is on the screen, as soon as it is there."""
DIALOG = ("click h1", "type ?", "click #keys button")
STEPS = {
    "/": ("click [data-dialog]", "click dialog [data-close]", *DIALOG),
    "/freezes/new": (
        *(f"click #{field}" for field in ("scope-repositories", "choices input", "scope-glob", "scope-organization")),
        *("click #scope-repositories", "click #find", "type s", "click #repeats [value=yearly]"),
        *("click #reason", "type r", "type e", "click .quick button", "click #new-freeze > div > details > summary"),
    ),
    "/calendar": ("click .event.begins", *DIALOG, "click .event.begins"),
    "/repositories": ("click #q", "type s", "type e", *DIALOG),
}
"""What people do on a page, in this order."""


def take_step(browser: Browser, step: str) -> float:
    """Click or type, and return the milliseconds until the next picture."""
    kind, _, what = step.partition(" ")
    if kind == "click":
        x, y = browser.value(f"{PLACE}({what!r})")
        browser.click(x, y, go=False)
    else:
        browser.press(what)
    return float(browser.value(TAKE))


def slowest_step(browser: Browser, address: str, steps: tuple[str, ...]) -> tuple[float, str]:
    """Return the milliseconds of the slowest step on a page, and the step."""
    best: dict[str, float] = {}
    for _ in range(TRIES):
        browser.open(address)
        browser.value(WATCH)
        for number, step in enumerate(steps):
            name, took = f"{number + 1} {step}", take_step(browser, step)
            best[name] = min(took, best.get(name, took))
    return max((took, name) for name, took in best.items())


def main() -> None:
    """Measure and print."""
    if CHROMIUM is None:
        print("Chromium is not installed: no interaction was measured")
        return
    with storage() as stores, web(stores.environment) as server:
        seed(stores)
        token, _freeze = sign_in(stores)
        with browsing(server, token) as browser:
            browser.resize(1280)
            print(f"The slowest step of each page, the best of {TRIES} tries")
            for path, steps in STEPS.items():
                took, step = slowest_step(browser, server.address + path, steps)
                print(f"  {path:14} {took:4.0f} ms (aim {AIM_MS})   {step}")
