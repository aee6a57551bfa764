"""The contract's names in Python: camelCase becomes snake_case."""

import re
from functools import cache

_BEFORE_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


@cache
def snake_case(name: str) -> str:
    """Return `freezeId` as `freeze_id`, `If-None-Match` as `if_none_match`."""
    return _BEFORE_CAPITAL.sub(r"_\1", name).replace("-", "_").lower()
