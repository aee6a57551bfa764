"""Calls of the API: which function answers a method and path, with which parameters; pages of lists."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tools.fake_stripe.core import Core
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.store import Json, Store

DEFAULT_LIMIT, MAX_LIMIT = 10, 100
EXPAND: dict[str, Any] = {"expand": [str]}
PAGE: dict[str, Any] = {"limit": int, "starting_after": str}


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
        """Return the page that the call requests of records; of `filters` those count that are given."""
        wanted = {name: self.params[name] for name in filters if name in self.params}
        found = [each for each in records if all(each[name] == value for name, value in wanted.items())]
        limit = self.params.get("limit", DEFAULT_LIMIT)
        if not 0 < limit <= MAX_LIMIT:
            raise invalid(f"This value must be less than or equal to {MAX_LIMIT}.", "limit")
        if "starting_after" in self.params:
            ids = [each["id"] for each in found]
            if self.params["starting_after"] not in ids:
                raise invalid(f"No such object: '{self.params['starting_after']}'", "starting_after")
            found = found[ids.index(self.params["starting_after"]) + 1 :]
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
        lists = self.method == "GET" and not self.template.endswith("}")
        return {**self.parameters, **({} if self.method == "DELETE" else EXPAND), **(PAGE if lists else {})}

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Return the expression that matches a path."""
        return re.compile(self.template.replace("{id}", "(?P<id>[^/]+)"))
