"""A control plane under `/_control/`: the answer to a request, and the actions that every simulation has."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import orjson

from tools.simulation.answers import Answer
from tools.simulation.faults import Faults
from tools.simulation.settings import Settings
from tools.simulation.wire import Incoming

Json = dict[str, Any]


class Calls(Protocol):
    """Counters of calls."""

    def as_json(self) -> Json:
        """Return all counters."""

    def reset(self) -> None:
        """Begin again at 0."""


class Simulation(Protocol):
    """What the actions here need of a simulation."""

    @property
    def faults(self) -> Faults:
        """The faults that are switched on."""

    @property
    def settings(self) -> Settings:
        """What can be set."""

    @property
    def calls(self) -> Calls:
        """What was called since the last reset."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock of its state."""

    def reset(self) -> None:
        """Begin again."""


Simulated = TypeVar("Simulated", bound=Simulation)
Action = Callable[[Simulated, dict[str, str], Json], Answer]


def _list_faults(simulation: Simulation, _query: dict[str, str], _body: Json) -> Answer:
    return Answer(200, {"faults": [fault.as_json() for fault in simulation.faults.active]})


def _add_fault(simulation: Simulation, _query: dict[str, str], body: Json) -> Answer:
    details = dict(body)
    fault = simulation.faults.add(details.pop("kind", ""), details.pop("scope", ""), **details)
    return Answer(201, fault.as_json())


def _clear_faults(simulation: Simulation, query: dict[str, str], _body: Json) -> Answer:
    simulation.faults.clear(int(query["id"]) if "id" in query else None)
    return Answer(204)


def _get_settings(simulation: Simulation, _query: dict[str, str], _body: Json) -> Answer:
    return Answer(200, simulation.settings.as_json())


def get_calls(simulation: Simulation, query: dict[str, str], _body: Json) -> Answer:
    """Return the counters; `reset=true` resets them."""
    shown = simulation.calls.as_json()
    if query.get("reset") == "true":
        simulation.calls.reset()
    return Answer(200, shown)


def _reset_calls(simulation: Simulation, _query: dict[str, str], _body: Json) -> Answer:
    simulation.calls.reset()
    return Answer(204)


def _reset(simulation: Simulation, _query: dict[str, str], _body: Json) -> Answer:
    simulation.reset()
    return Answer(204)


COMMON_ACTIONS: dict[tuple[str, str], Action[Any]] = {
    ("GET", "faults"): _list_faults,
    ("POST", "faults"): _add_fault,
    ("DELETE", "faults"): _clear_faults,
    ("GET", "settings"): _get_settings,
    ("GET", "calls"): get_calls,
    ("DELETE", "calls"): _reset_calls,
    ("POST", "reset"): _reset,
}


def answer(simulation: Simulated, actions: Mapping[tuple[str, str], Action[Simulated]], incoming: Incoming) -> Answer:
    """Answer a request of the control plane; what is wrong with it is said in a 400."""
    known = {**COMMON_ACTIONS, **actions}
    action = known.get((incoming.method, incoming.path.removeprefix("/_control/")))
    if action is None:
        names = sorted(f"{verb} /_control/{name}" for verb, name in known)
        return Answer(404, {"message": "no such control", "known": names})
    try:
        with simulation.lock:
            return action(simulation, incoming.query, orjson.loads(incoming.raw) if incoming.raw.strip() else {})
    except (ValueError, KeyError, TypeError) as error:
        return Answer(400, {"message": f"{type(error).__name__}: {error}"})
