"""The contract's names, in camelCase, and those in Python, in snake_case."""

import re
from functools import cache

_BEFORE_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_AFTER_UNDERSCORE = re.compile(r"_([a-z])")


@cache
def snake_case(name: str) -> str:
    """Return `freezeId` as `freeze_id`, `X-GitHub-Event` as `x_github_event`."""
    return (name if "-" in name else _BEFORE_CAPITAL.sub(r"_\1", name)).replace("-", "_").lower()


@cache
def camel_case(name: str) -> str:
    """Return `freeze_id` as `freezeId`."""
    return _AFTER_UNDERSCORE.sub(lambda found: found[1].upper(), name)
