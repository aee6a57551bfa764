"""Ranges of time in queries."""

from datetime import datetime

from rules.errors import field_error


def require_range(since: datetime | None, until: datetime | None, names: tuple[str, str]) -> None:
    """Raise `invalid_parameter` if a range, given by two query parameters, ends before it starts."""
    if since is not None and until is not None and until <= since:
        message = f"{names[1]} must be later than {names[0]}"
        raise field_error(names[1], message, message=f"{message}.")
