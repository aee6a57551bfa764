"""Requests of clients of the classic service in tests, and how answers are read."""

from dataclasses import dataclass
from typing import Any

import httpx
from sqlalchemy.orm import Session

from tests.handlers.callers import Tenant

PREFIX = "/api/compat/v1"
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class ClassicClient:
    """A client that sends its token in the query, and what it sends byte for byte."""

    acme: Tenant
    token: str

    @property
    def http(self) -> httpx.Client:
        return self.acme.http

    @property
    def session(self) -> Session:
        return self.acme.session

    def address(self, path: str) -> str:
        return f"{PREFIX}{path}?access_token={self.token}"

    def get(self, path: str = "/branches/acme/web/main/", **headers: str) -> httpx.Response:
        return self.http.get(self.address(path), headers=headers)

    def post(
        self, body: bytes = b"", path: str = "/branches/acme/web/main/", *, content_type: str | None = FORM
    ) -> httpx.Response:
        headers = {} if content_type is None else {"Content-Type": content_type}
        return self.http.post(self.address(path), content=body, headers=headers)

    def state(self, path: str = "/branches/acme/web/main/") -> dict[str, Any]:
        return shown(self.get(path))

    def change(self, body: bytes) -> dict[str, Any]:
        return shown(self.post(body))


def shown(response: httpx.Response) -> dict[str, Any]:
    """Return a branch, whose answer is always 200 and never cached."""
    assert response.status_code == 200, response.text
    assert response.headers["Cache-Control"] == "private, no-store"
    answer: dict[str, Any] = response.json()
    return answer


def refused(response: httpx.Response, status: int, code: str) -> str:
    """Check that a request was refused with this code in the classic shape, and return the message."""
    assert (response.status_code, response.json().get("code")) == (status, code), response.text
    error: str = response.json()["error"]
    assert isinstance(error, str)
    return error
