"""Errors as Stripe answers them."""

from typing import Any

Json = dict[str, Any]
INVALID = "invalid_request_error"


class Refusal(Exception):  # noqa: N818 - an answer, not a failure
    """A request that is refused; `detail` are further fields of the error, such as `code` and `param`."""

    def __init__(self, status: int, kind: str, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message
        self.detail = {name: value for name, value in detail.items() if value is not None}

    def body(self) -> Json:
        """Return the body of the answer."""
        return {"error": {**self.detail, "message": self.message, "type": self.kind}}


def invalid(message: str, param: str | None = None, code: str | None = None, status: int = 400) -> Refusal:
    """Return the refusal of an invalid request."""
    return Refusal(status, INVALID, message, code=code, param=param)


def missing(kind: str, identifier: str, param: str = "id") -> Refusal:
    """Return the refusal of an unknown id: 404 if the path names it, 400 if a parameter does."""
    message = f"No such {kind.replace('_', ' ')}: '{identifier}'"
    return invalid(message, param, "resource_missing", 404 if param == "id" else 400)


def missing_parameter(name: str) -> Refusal:
    """Return the refusal of a request that lacks a parameter."""
    return invalid(f"Missing required param: {name}.", name, "parameter_missing")


def card_error(code: str, message: str) -> Refusal:
    """Return the refusal of a payment."""
    return Refusal(402, "card_error", message, code=code)
