"""Protection of forms, and the headers of every page.

A form is protected from other sites by the `Origin` of its request (or by `Sec-Fetch-Site`, since a page without
referrer sends no origin), and by a token bound to a cookie that other sites cannot have sent.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Any, Literal

from flask import Response, make_response, render_template, request

from rules import web_addresses
from rules.access.origins import is_same_origin

MAX_FORM_BYTES = 16_384
"""Of a form, but for those of `max_form_bytes`."""
MAX_FIELD_LENGTH = 4_096
MAX_LIST_LENGTH = 163_840
"""Of a field that lists things: a thousand repositories with the longest names, or a thousand days."""
MAX_LIST_FORM_BYTES = 262_144
MAX_FILE_BYTES = 1_048_576
_MAX_LENGTHS = {
    "content": MAX_FILE_BYTES,
    "kept": MAX_LIST_FORM_BYTES,
    **dict.fromkeys(("patterns", "repositories", "branches", "dates", "except_dates"), MAX_LIST_LENGTH),
}
"""Characters of the fields that may be longer than MAX_FIELD_LENGTH, where their form may be."""
REPEATED = ("repositories", "schedules")
"""Fields that a form may have several times, such as boxes to tick: each thing becomes a line."""
_LARGE_FORMS = (
    (web_addresses.IMPORT, MAX_FILE_BYTES + MAX_LIST_FORM_BYTES),
    (web_addresses.NEW_FREEZE, MAX_LIST_FORM_BYTES),
    (f"{web_addresses.NEW_FREEZE}/impact", MAX_LIST_FORM_BYTES),
    (web_addresses.NEW_SCHEDULE, MAX_LIST_FORM_BYTES),
    (web_addresses.SCHEDULE_PREVIEW, MAX_LIST_FORM_BYTES),
    (web_addresses.REPOSITORY_CHOICES, MAX_LIST_FORM_BYTES),
    (web_addresses.EDIT_SCHEDULE, MAX_LIST_FORM_BYTES),
    (web_addresses.EXCEPTION_RULES, MAX_LIST_FORM_BYTES),
    (web_addresses.EDIT_EXCEPTION_RULE, MAX_LIST_FORM_BYTES),
    (web_addresses.SIGN_IN, MAX_LIST_FORM_BYTES),
)
_SIZES = [(re.compile(address.replace("{id}", "[^/]+")), size) for address, size in _LARGE_FORMS]
_COOKIE_BYTES = 24
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}

Referrer = Literal["no-referrer", "same-origin"]


class ForeignFormError(Exception):
    """The form was not sent by our page, or not by the browser that the page was shown in.

    `ours`: a page of ours has sent it, but under another sign-in, or in a browser that has lost its cookies.
    """

    title = "This form has expired"
    message = (
        "The form was not sent from the page that showed it, in the same browser and under the same sign-in. "
        "Reload the page and try again."
    )

    def __init__(self, *, ours: bool = False) -> None:
        super().__init__()
        self.ours = ours


@dataclass(frozen=True, slots=True)
class FormGuard:
    """Recognises our own forms by the page that sent them and the browser that they were shown in."""

    name: str
    """Name of the cookie that holds the browser's secret."""
    web_url: str
    samesite: Literal["Strict", "Lax"] = "Lax"
    max_age: int | None = None
    """Seconds that the cookie is kept; None until the browser is closed."""

    @property
    def secure(self) -> bool:
        """True if the web origin is https; cookies are then sent only over https."""
        return self.web_url.startswith("https://")

    @property
    def cookie(self) -> str:
        """The cookie's full name; with the prefix no other host of the domain can set it (RFC 6265bis, 4.1.3.2)."""
        return f"__Host-{self.name}" if self.secure else self.name

    def browser_secret(self) -> str:
        """Return the secret that the browser sent, or a new one."""
        known = request.cookies.get(self.cookie, "")
        return known if len(known) >= _COOKIE_BYTES else secrets.token_urlsafe(_COOKIE_BYTES)

    def set_cookie(self, page: Response, secret: str) -> None:
        """Have the browser keep its secret."""
        page.set_cookie(
            self.cookie,
            secret,
            max_age=self.max_age,
            secure=self.secure,
            httponly=True,
            samesite=self.samesite,
            path="/",
        )

    def delete_cookie(self, page: Response) -> None:
        """Remove the browser's secret: the next form gets another one."""
        page.delete_cookie(self.cookie, secure=self.secure, httponly=True, samesite=self.samesite, path="/")

    def token(self, secret: str, subject: str) -> str:
        """Return a token of a form about `subject` in the browser with this secret.

        It looks different in each page, so that the length of a compressed page tells nothing about it (BREACH).
        """
        mask = secrets.token_bytes(hashlib.sha256().digest_size)
        return (mask + _masked(_mark(secret, subject), mask)).hex()

    def check(self, subject: str) -> None:
        """Raise ForeignFormError unless the request sends a form of ours about `subject`."""
        if not is_same_origin(_header, self.web_url):
            raise ForeignFormError
        secret = request.cookies.get(self.cookie, "")
        given = request.form.get("token", "")
        if not secret or not hmac.compare_digest(_unmasked(given), _mark(secret, subject)):
            raise ForeignFormError(ours=bool(secret))


def _mark(secret: str, subject: str) -> bytes:
    return hmac.new(secret.encode(), subject.encode(), hashlib.sha256).digest()


def _masked(mark: bytes, mask: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(mark, mask, strict=True))


def _unmasked(token: str) -> bytes:
    """Return what a token says; nothing if it is none of ours."""
    try:
        found = bytes.fromhex(token)
    except ValueError:
        return b""
    half = hashlib.sha256().digest_size
    return _masked(found[half:], found[:half]) if len(found) == 2 * half else b""


def max_form_bytes(path: str) -> int:
    """Return how many bytes a form that is sent to this path may have."""
    return next((size for pattern, size in _SIZES if pattern.fullmatch(path)), MAX_FORM_BYTES)


def max_field_length(name: str) -> int:
    """Return how many characters a field of this name may have."""
    return _MAX_LENGTHS.get(name, MAX_FIELD_LENGTH)


def _header(name: bytes) -> bytes | None:
    value = request.headers.get(name.decode("ascii"))
    return None if value is None else value.encode("latin-1", "replace")


def render_page(template: str, status: int = 200, *, referrer: Referrer = "no-referrer", **values: Any) -> Response:
    """Return a page that is not cached, cannot be framed, and runs only our own scripts.

    With `same-origin` its forms send their origin; an address that holds a secret needs `no-referrer`.
    """
    page = make_response(render_template(template, **values), status)
    page.headers.update(HEADERS)
    page.headers["Referrer-Policy"] = referrer
    return page
