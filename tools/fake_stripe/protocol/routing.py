"""Routes: which function answers a method and path, with which parameters."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from tools.fake_stripe.core import Core
from tools.fake_stripe.protocol.parameters import NOTHING, Fields, Many, Parameter, Text, Whole
from tools.fake_stripe.store import Json, Store

MAX_LIMIT = 100
EXPAND: dict[str, Parameter] = {"expand": Many(Text())}
_PAGE: dict[str, Parameter] = {"limit": Whole(1, MAX_LIMIT), "starting_after": Text(), "ending_before": Text()}


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way through a handler."""

    core: Core
    path: str
    ids: dict[str, str]
    """The ids that the path has."""
    params: Json

    @property
    def store(self) -> Store:
        """Return all objects."""
        return self.core.store

    def named(self, kind: str) -> Json:
        """Return the object that the path names. Raise Refusal (404) if there is none."""
        return self.store.get(kind, self.ids["id"])

    def referred(self, kind: str, param: str) -> Json | None:
        """Return the object that a parameter names, if it was given. Raise Refusal (400) if there is none."""
        identifier = self.params.get(param)
        return None if identifier is None else self.store.get(kind, identifier, param)


Handler = Callable[[Call], Json]


@dataclass(frozen=True)
class Route:
    """A template with what answers it; `permission` is what a restricted key needs."""

    method: str
    template: str
    handler: Handler
    permission: str
    parameters: Fields = NOTHING

    @cached_property
    def accepted(self) -> Fields:
        """Return all parameters, with those that every method of this form has."""
        lists = self.method == "GET" and not self.template.endswith("}")
        more = {} if self.method == "DELETE" else EXPAND
        return self.parameters.with_more({**more, **(_PAGE if lists else {})})

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Return the expression that matches a path."""
        return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.template))
