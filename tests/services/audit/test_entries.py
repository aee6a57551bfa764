"""Every entry of the services is in the vocabulary, and has the state before and after."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from models.audit import AuditEntry
from models.organizations import Organization
from rules.audit.actions import ACTIONS, EVENTS
from rules.audit.changes import differences
from rules.notifications.kinds import KINDS
from tests.services.conftest import UnitOfWorkOpener

SERVICES = Path(__file__).parents[3] / "services"
NOUNS = {action.partition(".")[0] for action in ACTIONS}
AN_ACTION = re.compile(rf'"({"|".join(sorted(NOUNS))})\.[a-z_]+"')


@dataclass(frozen=True, slots=True)
class Call:
    """A place where an entry with a written-out action is recorded."""

    place: str
    actions: tuple[str, ...]
    keywords: frozenset[str | None]

    def __str__(self) -> str:
        return f"{self.place} {'/'.join(self.actions)}"


def calls() -> Iterator[Call]:
    """Yield every call that has a word of the form `noun.verb` among its positional arguments, and more after it."""
    sources = ((path, path.read_text()) for path in sorted(SERVICES.rglob("*.py")))
    for path, source in sources:
        for node in ast.walk(ast.parse(source)) if AN_ACTION.search(source) else ():
            if isinstance(node, ast.Call) and (actions := [name for each in node.args for name in _actions(each)]):
                keywords = frozenset(keyword.arg for keyword in node.keywords)
                yield Call(f"{path.relative_to(SERVICES.parent)}:{node.lineno}", tuple(actions), keywords)


def _actions(argument: ast.expr) -> list[str]:
    """Return the actions that an argument can be."""
    if isinstance(argument, ast.IfExp):
        return [*_actions(argument.body), *_actions(argument.orelse)]
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        noun, dot, verb = argument.value.partition(".")
        return [argument.value] if dot and noun in NOUNS and verb.isidentifier() and verb.islower() else []
    return []


CALLS = [call for call in calls() if not set(call.actions) <= KINDS.keys() - ACTIONS.keys()]
"""Without calls about kinds of notification that are no actions."""


def test_most_audit_actions_are_recorded_by_calls_in_the_source() -> None:
    assert len({action for call in CALLS for action in call.actions}) > len(ACTIONS) / 2


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_recorded_action_is_in_the_vocabulary(call: Call) -> None:
    assert set(call.actions) <= ACTIONS.keys()


@pytest.mark.parametrize("call", [call for call in CALLS if not set(call.actions) <= EVENTS], ids=str)
def test_recorded_change_has_before_and_after(call: Call) -> None:
    passed_on = not call.keywords or None in call.keywords or "audit_end" in _source(call)
    assert {"before", "after"} <= call.keywords or "rows" in call.keywords or passed_on


def _source(call: Call) -> str:
    path, _, line = call.place.rpartition(":")
    return (SERVICES.parent / path).read_text().splitlines()[int(line) - 1]


def test_audit_events_are_actions() -> None:
    assert ACTIONS.keys() >= EVENTS


def test_action_outside_the_vocabulary_is_rejected(unit_of: UnitOfWorkOpener, acme: Organization) -> None:
    with unit_of(acme) as uow, pytest.raises(RuntimeError, match=r"rules/audit/actions\.py"):
        uow.audit("freeze.begun", ("freeze", "frz_1", "x"))


def test_instants_in_audit_details_have_the_format_of_the_api(unit_of: UnitOfWorkOpener, acme: Organization) -> None:
    day = datetime(2027, 1, 4, 8, tzinfo=UTC)
    with unit_of(acme) as uow:
        uow.audit("freeze.grew", ("freeze", "frz_1", "x"), at=day, inside={"list": [day, 7, None]})
        uow.session.flush()
        details = uow.session.scalars(select(AuditEntry.details)).one()
    assert details == {"at": "2027-01-04T08:00:00Z", "inside": {"list": ["2027-01-04T08:00:00Z", 7, None]}}


def test_differences_have_only_the_changed_values() -> None:
    before = {"name": "Acme", "plan": "free", "settings": {"timezone": "UTC", "approval": "admin"}, "list": [1]}
    after = {"name": "Acme", "plan": "team", "settings": {"timezone": "UTC", "approval": "member"}, "list": [1, 2]}
    assert differences(before, after) == (
        {"plan": "free", "settings": {"approval": "admin"}, "list": [1]},
        {"plan": "team", "settings": {"approval": "member"}, "list": [1, 2]},
    )
    assert differences(before, before) == ({}, {})
