"""One try of one fault, and the catalogue that faults are registered in."""

import importlib
import pkgutil
import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.faults.suite.client import Client, Ledger
from tests.faults.suite.people import People
from tests.faults.suite.stack import Stack


@dataclass
class Trial:
    """One try of a fault: what its function gets."""

    stack: Stack
    random: random.Random
    ledger: Ledger = field(default_factory=Ledger)
    injected_at: float = field(default_factory=time.monotonic)
    """When the recovery began to count, by `time.monotonic`."""
    broken: list[str] = field(default_factory=list)
    """Promises of this fault alone that were not kept."""

    @property
    def client(self) -> Client:
        """A client of `acme`, with an API key."""
        return Client(self.stack, self.stack.acme, self.ledger)

    @property
    def people(self) -> People:
        """People who push to `acme` at GitHub."""
        return People(self.stack, self.stack.acme)

    def injected(self) -> None:
        """Count the recovery from now on."""
        self.injected_at = time.monotonic()

    def require(self, kept: object, promise: str) -> None:
        """Note a promise that was not kept, and go on."""
        if not kept:
            self.broken.append(promise)


@dataclass(frozen=True, slots=True)
class Fault:
    """One row of the fault table."""

    name: str
    inject: Callable[[Trial], None]
    within: float
    """Seconds in which everything has to be right again."""
    load: bool
    """True if `beta` starts and lifts freezes and pushes meanwhile."""
    needs_redis: bool
    """True if it makes no sense without Redis."""
    quick: bool
    """True if `make check` tries it: not if a process has to wait out a deadline of its own."""
    module: str
    """The module of `catalogue/` that has it."""


_catalogue: dict[str, Fault] = {}


def fault(
    name: str,
    *,
    within: float = 60.0,
    load: bool = True,
    needs_redis: bool = False,
    quick: bool = True,
    **given: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a fault; it is `given` further arguments, by which several faults share one function."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        assert name not in _catalogue, f"two faults are called {name!r}"
        module = function.__module__.rpartition(".")[2]
        _catalogue[name] = Fault(name, partial(function, **given), within, load, needs_redis, quick, module)
        return function

    return register


def catalogue(*, redis: bool = True, only: Collection[str] = ()) -> list[Fault]:
    """Return every fault, or those whose name contains one of the texts `only`."""
    from tests.faults.suite import catalogue as package

    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda one: one.name):
        importlib.import_module(f"{package.__name__}.{module.name}")
    wanted = [one.lower() for one in only] or [""]
    found = [one for one in _catalogue.values() if redis or not one.needs_redis]
    return [one for one in found if any(text in one.name.lower() for text in wanted)]
