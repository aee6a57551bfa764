"""The contract's names in Python: camelCase becomes snake_case."""

import re
from functools import cache

_BEFORE_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


@cache
def snake_case(name: str) -> str:
    """Return `freezeId` as `freeze_id`, `X-GitHub-Event` as `x_github_event`."""
    return (name if "-" in name else _BEFORE_CAPITAL.sub(r"_\1", name)).replace("-", "_").lower()
