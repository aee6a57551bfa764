"""Calls of the API: which function answers a method and path, with which parameters; lists."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tools.fake_stripe.core import Core
from tools.fake_stripe.store import Json, Store

DEFAULT_LIMIT = 10
EXPAND: dict[str, Any] = {"expand": [str]}
PAGE: dict[str, Any] = {"limit": int}


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way through a handler; `id` is the one that the path has."""

    core: Core
    path: str
    id: str
    params: Json

    @property
    def store(self) -> Store:
        """Return all objects."""
        return self.core.store

    def named(self, kind: str) -> Json:
        """Return the object that the path names. Raise Refusal (404) if there is none."""
        return self.store.get(kind, self.id)

    def page(self, records: Iterable[Json], *filters: str) -> Json:
        """Return the first page of records; of `filters` those count that are given.

        The next page is not simulated: a request for it is refused.
        """
        wanted = {name: self.params[name] for name in filters if name in self.params}
        found = [each for each in records if all(each[name] == value for name, value in wanted.items())]
        limit = self.params.get("limit", DEFAULT_LIMIT)
        return {"object": "list", "data": found[:limit], "has_more": len(found) > limit, "url": self.path}


@dataclass(frozen=True)
class Route:
    """A template with what answers it, and what it accepts as in `parameters.py`."""

    method: str
    template: str
    handler: Callable[[Call], Json]
    parameters: Json

    @cached_property
    def accepted(self) -> Json:
        """Return all parameters, with those that every method of this form has."""
        of_method = {"GET": {**EXPAND, **PAGE}, "POST": EXPAND, "DELETE": {}}
        return {**self.parameters, **of_method[self.method]}

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Return the expression that matches a path."""
        return re.compile(self.template.replace("{id}", "(?P<id>[^/]+)"))
