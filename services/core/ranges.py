"""Ranges of time in queries."""

from datetime import datetime

from rules.errors import Detail, ServiceError


def require_range(since: datetime | None, until: datetime | None, names: tuple[str, str]) -> None:
    """Raise `invalid_parameter` if a range, given by two query parameters, ends before it starts."""
    if since is not None and until is not None and until <= since:
        detail = Detail(names[1], f"{names[1]} must be later than {names[0]}", "invalid_parameter")
        raise ServiceError("invalid_parameter", f"{detail.message}.", details=(detail,))
