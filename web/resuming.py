"""Forms that a session did not outlive: the person signs in at the place, and finds the form filled in as they left it.

What was entered is kept in the page of the sign-in, and is sent to nobody else. After the sign-in, the page of the form
is shown with it, and does nothing: the person looks at it and sends it. Secrets, files and what a page hides are not
kept; a page that hides something has it anew.
"""

from collections.abc import Sequence
from html import escape
from html.parser import HTMLParser

import orjson
from flask import Response, request

from rules import web_addresses
from web.forms import max_form_bytes

KEPT = "kept"
"""The field that holds what was entered."""
RESUME = "resume"
"""The parameter of an address to which such a form is sent."""
_SPARE = 4_000
"""Bytes of a form beside what is kept."""
_OWN = ("token", "key", KEPT)
_TEXTS = ("text", "email", "search", "url", "tel", "number", "date", "time", "datetime-local", "month", "week")
_ASKED = ("ref", "decision", "repository", "branch")
"""Fields that a page needs in its address to show its form."""

Fields = Sequence[tuple[str, str]]


def kept_fields() -> str:
    """Return the fields of the form that was sent, without secrets; empty if there are none, or too many."""
    sent = [(name, value) for name, value in request.form.items(multi=True) if _is_kept(name)]
    text = orjson.dumps(sent).decode() if sent else ""
    room = min(max_form_bytes(request.path), max_form_bytes(web_addresses.SIGN_IN)) - _SPARE
    return text if len(text.encode()) <= room else ""


def read_kept(text: str) -> Fields:
    """Return the fields of a text of `kept_fields`; none if it cannot be read."""
    try:
        found = orjson.loads(text)
        return [(name, value) for name, value in found if isinstance(name, str) and isinstance(value, str)]
    except (ValueError, TypeError):
        return []


def asked_of(fields: Fields) -> dict[str, str]:
    """Return the parameters that the page of the form is opened with."""
    return {name: value for name, value in fields if name in _ASKED and len(value) <= 200}


def refilled(page: Response, path: str, fields: Fields) -> Response:
    """Return a page in which the form of these fields is filled in with them."""
    if page.mimetype != "text/html":
        return page
    html = page.get_data(as_text=True)
    forms = _Forms(path)
    forms.feed(html)
    chosen = forms.find(fields)
    if chosen is not None:
        filler = _Filler(chosen, fields)
        filler.feed(html)
        filler.close()
        page.set_data("".join(filler.written))
    return page


def _is_kept(name: str) -> bool:
    return name not in _OWN and "password" not in name and name != "confirmed"


class _Forms(HTMLParser):
    """Reads which forms a page has."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._forms: list[tuple[bool, set[str], dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a form, or a field of the form that was begun last."""
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            sends = (
                given.get("method", "").lower() == "post" and given.get("action", "").partition("?")[0] == self._path
            )
            self._forms.append((sends, set(), {}))
        elif self._forms and (name := given.get("name")):
            hidden = given.get("type") == "hidden" and name not in _OWN
            if hidden and name.endswith("id"):
                self._forms[-1][2][name] = given.get("value", "")
            elif not hidden:
                self._forms[-1][1].add(name)

    def find(self, fields: Fields) -> int | None:
        """Return the number of the form that has most of the fields, and is about the same thing."""
        values = dict(fields)
        fits = [
            (len(names & set(values)), -number)
            for number, (sends, names, about) in enumerate(self._forms)
            if sends and all(values.get(name) == value for name, value in about.items())
        ]
        most, number = max(fits, default=(0, 0))
        return -number if most else None


class _Filler(HTMLParser):
    """Writes a page again, with the values of one of its forms."""

    def __init__(self, form: int, fields: Fields) -> None:
        super().__init__(convert_charrefs=False)
        self.written: list[str] = []
        self._left = form
        self._inside = False
        self._select = ""
        self._skips = False
        self._values: dict[str, list[str]] = {}
        for name, value in fields:
            self._values.setdefault(name, []).append(value)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Write an element, with its value where it is a field of the form."""
        given = dict(attrs)
        if tag == "form":
            self._inside = self._left == 0
            self._left -= 1
        if not self._inside:
            self._write(self.get_starttag_text())
            return
        name = given.get("name") or ""
        if tag == "input":
            self._write(self._input(given))
        elif tag == "textarea" and name in self._values:
            self._write(self.get_starttag_text())
            self._write(escape(self._values[name][0]))
            self._skips = True
        elif tag == "option" and self._select in self._values:
            given.pop("selected", None)
            chosen = (given.get("value") or "") in self._values[self._select]
            self._write(_tag(tag, {**given, **({"selected": None} if chosen else {})}))
        else:
            self._select = name if tag == "select" else self._select
            self._write(self.get_starttag_text())

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - HTMLParser's
        self._write(self.get_starttag_text())

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._skips = False
        self._inside = self._inside and tag != "form"
        self._write(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self._write(data)

    def handle_entityref(self, name: str) -> None:
        self._write(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._write(f"&#{name};")

    def handle_comment(self, data: str) -> None:
        self._write(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self._write(f"<!{decl}>")

    def _input(self, given: dict[str, str | None]) -> str:
        """Return an input with its value; one that has no value of its own stays."""
        name, kind = given.get("name") or "", given.get("type") or "text"
        if kind in {"checkbox", "radio"}:
            given.pop("checked", None)
            chosen = (given.get("value") or "on") in self._values.get(name, ())
            return _tag("input", {**given, **({"checked": None} if chosen else {})})
        if kind in _TEXTS and name in self._values:
            return _tag("input", {**given, "value": self._values[name][0]})
        return self.get_starttag_text() or ""

    def _write(self, text: str | None) -> None:
        if not self._skips:
            self.written.append(text or "")


def _tag(tag: str, attributes: dict[str, str | None]) -> str:
    shown = [name if value is None else f'{name}="{escape(value)}"' for name, value in attributes.items()]
    return f"<{' '.join([tag, *shown])}>"
