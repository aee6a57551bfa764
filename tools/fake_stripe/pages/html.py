"""The frame of hosted pages: plain HTML without scripts and without anything from elsewhere."""

from html import escape

from tools.simulation.answers import Answer

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem;color:#1a1f36;"
    "background:#fff}h1{font-size:1.5rem}button,input,select{font:inherit;padding:.4rem .7rem;margin:.2rem 0}"
    "label{display:block;margin:.6rem 0}[role=alert]{color:#a41c4e}li{margin:.4rem 0}form{margin:.6rem 0}"
    ".simulated{color:#5a6072;font-size:.85rem;border-top:1px solid #d5dbe1;margin-top:2rem;padding-top:.6rem}"
)
CARD_HINT = (
    "Any card of 4242 4242 4242 4242 (pays), 4000 0000 0000 0002 (declined), 4000 0000 0000 0341 (can be saved, "
    "charges fail), 4000 0025 0000 3155 (3-D Secure)."
)
CARD_FIELD = '<label>Card number <input name="card" inputmode="numeric" autocomplete="cc-number" required></label>'


def page(title: str, body: str, status: int = 200) -> Answer:
    """Return a page; `body` is HTML."""
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body><main><h1>{escape(title)}</h1>{body}"
        '<p class="simulated">This is a simulation: no money moves.</p></main></body></html>'
    )
    headers = {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"}
    return Answer(status, text.encode(), headers)


def redirect(url: str) -> Answer:
    """Return a redirection after a form."""
    return Answer(303, None, {"Location": url})


def alert(message: str | None) -> str:
    """Return a message about what went wrong, as HTML; nothing if there is none."""
    return f'<p role="alert">{escape(message)}</p>' if message else ""


def form(inner: str, **hidden: str) -> str:
    """Return a form that posts to its own page."""
    fields = "".join(f'<input type="hidden" name="{name}" value="{escape(value)}">' for name, value in hidden.items())
    return f'<form method="post">{fields}{inner}</form>'


def link(url: str, text: str) -> str:
    """Return a link."""
    return f'<a href="{escape(url)}">{escape(text)}</a>'


def money(amount: int, currency: str) -> str:
    """Return an amount of the smallest unit as people read it."""
    if currency.lower() == "jpy":
        return f"{amount:,} JPY"
    return f"{amount / 100:,.2f} {currency.upper()}"
