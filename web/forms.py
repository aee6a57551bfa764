"""What every page is sent with, and what its forms are safe by.

A form is safe from other sites by the `Origin` of its request (or, since a page without referrer sends none, by
`Sec-Fetch-Site`), and by a token that fits a cookie which other sites cannot have sent. A refused form is a page too.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any, Literal

from flask import Response, make_response, render_template, request

from app.edge.origins import is_same_origin

LONGEST_FORM = 16_384
"""Bytes of a form that are read."""
LONGEST_ANSWER = 4_096
"""Characters of one field that are looked at."""
_BROWSER_BYTES = 24
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}

Referrer = Literal["no-referrer", "same-origin"]


class ForeignFormError(Exception):
    """The form was not sent by the page that showed it, or not by the browser that was shown it."""

    title = "Not sent from this page"
    message = (
        "The form has to be sent from the page that showed it, in the same browser and signed in as before. "
        "Open the page anew, and send it from there."
    )


@dataclass(frozen=True, slots=True)
class Guard:
    """Knows our own forms again: by the page that sent them, and the browser that was shown it."""

    name: str
    """Of the cookie that holds a secret of the browser's."""
    web_url: str
    samesite: Literal["Strict", "Lax"] = "Lax"
    seconds: int | None = None
    """How long the cookie is kept; until the browser is closed, where nothing is said."""

    @property
    def secure(self) -> bool:
        """Whether people come by https: cookies are then sent by nothing else."""
        return self.web_url.startswith("https://")

    @property
    def cookie(self) -> str:
        """The cookie's whole name; with the prefix no other host of the domain can set it (RFC 6265bis, 4.1.3.2)."""
        return f"__Host-{self.name}" if self.secure else self.name

    def browser(self) -> str:
        """Return the secret of the browser that asks, or one for it to keep from now on."""
        known = request.cookies.get(self.cookie, "")
        return known if len(known) >= _BROWSER_BYTES else secrets.token_urlsafe(_BROWSER_BYTES)

    def remember(self, page: Response, browser: str) -> None:
        """Have the browser keep its secret."""
        page.set_cookie(
            self.cookie,
            browser,
            max_age=self.seconds,
            secure=self.secure,
            httponly=True,
            samesite=self.samesite,
            path="/",
        )

    def forget(self, page: Response) -> None:
        """Have the browser get another secret with the next form."""
        page.delete_cookie(self.cookie, secure=self.secure, httponly=True, samesite=self.samesite, path="/")

    def token(self, browser: str, subject: str) -> str:
        """Return what a form about `subject` carries in this browser."""
        return hmac.new(browser.encode(), subject.encode(), hashlib.sha256).hexdigest()

    def check(self, subject: str) -> None:
        """Raise ForeignFormError unless the form at hand is ours."""
        if not is_same_origin(_header, self.web_url):
            raise ForeignFormError
        browser = request.cookies.get(self.cookie, "")
        given = request.form.get("token", "")
        if not browser or not hmac.compare_digest(given.encode(), self.token(browser, subject).encode()):
            raise ForeignFormError


def _header(name: bytes) -> bytes | None:
    value = request.headers.get(name.decode("ascii"))
    return None if value is None else value.encode("latin-1", "replace")


def shown(template: str, status: int = 200, *, referrer: Referrer = "no-referrer", **values: Any) -> Response:
    """Return a page that is kept nowhere, framed by nobody, and runs nothing.

    With `same-origin` its forms say where they come from in `Origin`; an address that holds a secret has to have none.
    """
    page = make_response(render_template(template, **values), status)
    page.headers.update(_HEADERS)
    page.headers["Referrer-Policy"] = referrer
    return page
