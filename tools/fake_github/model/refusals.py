"""What the model answers when it does not do as asked: the status and words of GitHub."""

from typing import Any

DOCUMENTATION = "https://docs.github.com/rest"


class Refusal(Exception):  # noqa: N818 -- a refusal is an answer of GitHub, not a fault of the program
    """A request that is refused with a status, GitHub's message, and optionally its list of errors."""

    def __init__(
        self,
        status: int,
        message: str,
        errors: list[Any] | None = None,
        documentation: str = DOCUMENTATION,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors
        self.documentation = documentation
        self.headers = headers or {}


def not_found() -> Refusal:
    """Answer also for what the caller may not see."""
    return Refusal(404, "Not Found")


def validation_failed(resource: str, field: str, code: str = "invalid", message: str | None = None) -> Refusal:
    """Make GitHub's 422 with one structured error; a `message` makes it a custom one."""
    error = {"resource": resource, "field": field, "code": "custom" if message else code}
    if message:
        error["message"] = message
    return Refusal(422, "Validation Failed", [error])


def invalid_request(message: str) -> Refusal:
    """Make GitHub's 422 for a body that does not fit the schema."""
    return Refusal(422, f"Invalid request.\n\n{message}")


def forbidden_to_integration() -> Refusal:
    """Make the 403 of a missing App permission."""
    return Refusal(403, "Resource not accessible by integration")
