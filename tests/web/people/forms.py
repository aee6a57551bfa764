"""A browser without JavaScript for tests: cookies, pages as they are read, forms as they are sent."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import httpx

from tests.harness.servers import client_of


@dataclass(slots=True)
class Form:
    """One form of a page."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, dict[str, str]] = field(default_factory=dict)
    """Every control's attributes by its name."""
    buttons: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, value and text of each button."""


class Page(HTMLParser):
    """What a page shows."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self.answer = answer
        self.status = answer.status_code
        self.forms: list[Form] = []
        self.links: dict[str, str] = {}
        """Addresses by the texts of their links."""
        self.addresses: list[str] = []
        """Of every link, and of every part that is read again."""
        self.labels: dict[str, str] = {}
        self.ids: list[str] = []
        self.text = ""
        self._inside: list[str] = []
        self._link = self._label = self._control = ""
        self.feed(answer.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.addresses += [given[name] for name in ("href", "hx-get") if name in given]
        if tag == "form":
            self.forms.append(Form(given.get("action", ""), given["method"]))
        elif tag in {"input", "textarea", "select"} and self._form and "name" in given:
            self._add_control(tag, given)
        elif tag == "option" and self._form and self._control:
            if "selected" in given or self._control not in self._form.fields:
                self._form.fields[self._control] = given["value"]
        elif tag == "button" and self._form:
            self._form.buttons.append((given.get("name", ""), given.get("value", ""), ""))
        elif tag == "a":
            self._link = given.get("href", "")
        elif tag == "label":
            self._label = given.get("for", "")
        if tag in {"form", "button", "a", "label", "style", "script", "textarea"}:
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            self._inside.remove(tag)
        if tag in {"select", "textarea"}:
            self._control = ""

    def handle_data(self, data: str) -> None:
        self.text += data
        if "button" in self._inside and self._form:
            name, value, text = self._form.buttons[-1]
            self._form.buttons[-1] = (name, value, text + data)
        if "a" in self._inside:
            self.links[data.strip()] = self._link
        if "label" in self._inside and self._label:
            self.labels[self._label] = data.strip()
        if "textarea" in self._inside and self._form and self._control:
            self._form.fields[self._control] += data

    @property
    def _form(self) -> Form | None:
        """The form that is being read."""
        return self.forms[-1] if "form" in self._inside else None

    def _add_control(self, tag: str, given: dict[str, str]) -> None:
        assert self._form is not None
        self._form.kinds[given["name"]] = given
        if tag == "input":
            if given.get("type") not in {"radio", "checkbox"} or "checked" in given:
                self._form.fields[given["name"]] = given.get("value", "")
            return
        self._control = given["name"]
        if tag == "textarea":
            self._form.fields[self._control] = ""

    def questions(self) -> list[str]:
        """Return what the page asks, in opened buttons, before it takes something away."""
        asked = [part.partition("</details>")[0] for part in self.answer.text.split('<details class="asks">')[1:]]
        panels = [part.partition("<p>")[2].partition("</p>")[0] for part in asked if 'class="danger"' in part]
        return [" ".join(re.sub("<[^>]+>", "", panel).split()) for panel in panels]

    def form(self, button: str) -> Form:
        """Return the form with this button."""
        for form in self.forms:
            if any(button in text for _, _, text in form.buttons):
                return form
        raise AssertionError(f"no form has a button {button!r}: {self.text}")

    @property
    def title(self) -> str:
        """The main heading."""
        return self.answer.text.partition("<h1")[2].partition(">")[2].partition("</h1>")[0]


class Person:
    """A person with a browser of their own."""

    def __init__(self, site: str, **headers: str) -> None:
        self.site = site
        self.client = client_of(site, headers=headers)

    def open(self, path: str, **parameters: str) -> Page:
        """Open a page, and go where it leads."""
        return Page(self.client.get(path, params=parameters or None, follow_redirects=True))

    def send(self, form: Form, button: str = "", **fields: str) -> httpx.Response:
        """Send a form as the browser does from a page of ours, and stay at the answer."""
        pressed = {name: value for name, value, text in form.buttons if name and button in text}
        data = {**form.fields, **pressed, **fields}
        return self.client.post(form.action, data=data, headers={"Origin": self.site})

    def press(self, page: Page, button: str, **fields: str) -> Page:
        """Fill a form in, press its button, and go where it leads."""
        answer = self.send(page.form(button), button, **fields)
        if answer.is_redirect:
            return self.open(answer.headers["location"])
        return Page(answer)

    def upload(self, form: Form, fields: dict[str, str], files: dict[str, tuple[str, bytes, str]]) -> Page:
        """Send a form with files, as the browser does from a page of ours."""
        headers = {"Origin": self.site}
        return Page(self.client.post(form.action, data=fields, files=files, headers=headers))

    def sign_in(self, email: str, password: str, **parameters: str) -> Page:
        """Sign in by the page."""
        page = self.open("/sign-in", **parameters)
        return self.press(page, "Sign in", email=email, password=password)

    @property
    def session(self) -> str | None:
        """The session token that the browser holds."""
        return self.client.cookies.get("session")

    def close(self) -> None:
        """Close the browser."""
        self.client.close()


def set_cookie(answer: httpx.Response, name: str) -> str:
    """Return the `Set-Cookie` line of one cookie."""
    lines: list[Any] = [line for line in answer.headers.get_list("set-cookie") if line.startswith(f"{name}=")]
    assert len(lines) == 1, answer.headers
    return str(lines[0])
